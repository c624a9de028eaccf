// `npm run bench`: builds with optimisation, gets the peer that is compared with, measures, prints the
// table and writes docs/benchmarks.md. `npm run bench -- --smoke` is the short form, without the file.

import { existsSync, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { BENCH_PACKAGES, BUILD_PACKAGES, TEST_PACKAGES, WINDOW_PACKAGES, install, toolchainFaults } from "./machine.mjs";
import { removeLeftovers } from "./leftovers.mjs";
import { ask, capture, root, show } from "./shell.mjs";

/** The peer: a sandbox for agents by another maker, with proxies instead of capture. */
const PEER = "@anthropic-ai/sandbox-runtime@0.0.78";

const smoke = process.argv.includes("--smoke");
if (!(await install([...BUILD_PACKAGES, ...WINDOW_PACKAGES]))) process.exit(9);
await install([...TEST_PACKAGES, ...BENCH_PACKAGES]);
const faults = toolchainFaults();
if (faults.length > 0) {
  for (const fault of faults) console.error(fault);
  process.exit(9);
}
const tools = join(root, "target", "tools", "peer");
if (!existsSync(join(tools, "node_modules"))) {
  mkdirSync(tools, { recursive: true });
  const args = ["install", "--no-audit", "--no-fund", "--silent", "--prefix", tools, PEER];
  const done = await capture("npm", args, { minutes: 5 });
  if (done.code !== 0) console.log(`The peer ${PEER} could not be installed; its rows will be empty.`);
}
const build = ["build", "--release", "--locked", "--workspace", "--bins"];
const built = show("cargo", build);
if (built !== 0) process.exit(built);
const listing = ask("cargo", [
  "test", "--release", "--locked", "--workspace", "--test", "bench", "--no-run", "--message-format=json",
]);
const bench = (listing ?? "")
  .split("\n")
  .filter((line) => line.startsWith("{"))
  .map((line) => JSON.parse(line))
  .find((message) => message.executable && message.target?.name === "bench");
if (!bench) {
  console.error("The benches do not build.");
  process.exit(1);
}
const env = { ...process.env, FOREMAN_TEST_BIN: dirname(dirname(bench.executable)) };
const code = show(bench.executable, [smoke ? "--smoke" : "--full"], { env });
removeLeftovers();
process.exit(code);
