// `npm run test:agents`: installs the real agents as docs/agents.md says, once, and runs the suite of agents with
// them. What cannot be installed because the registry cannot be reached is skipped, with that reason.

import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { TEST_PACKAGES, install } from "./machine.mjs";
import { removeLeftovers } from "./leftovers.mjs";
import { buildSuite, prepareBuild } from "./prepare.mjs";
import { capture, root, show } from "./shell.mjs";

/** What the others run on, where the machine's own is older. */
const NODE = "node@22.23.3";

/** Agents and their packages, as the page says that they are installed. Claude Code's licence lets nobody but its user do that. */
function documented() {
  const agents = {};
  let pinned;
  for (const line of readFileSync(join(root, "docs", "agents.md"), "utf8").split("\n")) {
    pinned = /^ {4}npm install -g (\S+)/.exec(line)?.[1] ?? pinned;
    const agent = /^ {4}foreman run --agent (\S+) /.exec(line)?.[1];
    if (agent && pinned && agent !== "claude") agents[agent] ??= pinned;
  }
  return agents;
}

async function installAgent(program, pinned) {
  const folder = join(root, "target", "agents", program);
  const stamp = join(folder, `.${pinned.replaceAll(/[@/]/g, "_")}`);
  if (existsSync(stamp)) return;
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const done = await capture("npm", ["install", "--prefix", folder, "--no-audit", "--no-fund", pinned], { minutes: 15 });
  if (done.code === 0 && existsSync(join(folder, "node_modules", ".bin", program))) {
    mkdirSync(stamp);
    return;
  }
  rmSync(folder, { recursive: true, force: true });
  console.log(`skipped: ${pinned} could not be installed\n${done.output.split("\n").slice(-5).join("\n")}`);
  if (!/ENOTFOUND|ETIMEDOUT|ECONNREFUSED|EAI_AGAIN|ECONNRESET/.test(done.output)) process.exitCode = 1;
}

await prepareBuild();
await install(TEST_PACKAGES);
for (const [program, pinned] of Object.entries({ node: NODE, ...documented() })) await installAgent(program, pinned);
const suite = buildSuite("agents");
removeLeftovers();
const code = show(suite.executable, process.argv.slice(2), { env: suite.env, cwd: `${root}/tests` });
removeLeftovers();
process.exit(code || process.exitCode || 0);
