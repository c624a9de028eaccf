// `npm run test:agents`: installs the real agents at their pinned versions, once, and runs the suite of agents with
// them. What cannot be installed because the registry cannot be reached is skipped, with that reason.

import { existsSync, mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { TEST_PACKAGES, install } from "./machine.mjs";
import { removeLeftovers } from "./leftovers.mjs";
import { buildSuite, prepareBuild } from "./prepare.mjs";
import { capture, root, show } from "./shell.mjs";

/** Program, and the package with its version. */
const AGENTS = {
  node: "node@22.23.3",
  pi: "@earendil-works/pi-coding-agent@1.6.0",
  opencode: "opencode-ai@1.18.33",
  codex: "@openai/codex@0.171.0",
  gemini: "@google/gemini-cli@0.61.0",
  qwen: "@qwen-code/qwen-code@0.24.4",
};

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
for (const [program, pinned] of Object.entries(AGENTS)) await installAgent(program, pinned);
const suite = buildSuite("agents");
removeLeftovers();
const code = show(suite.executable, process.argv.slice(2), { env: suite.env, cwd: `${root}/tests` });
removeLeftovers();
process.exit(code || process.exitCode || 0);
