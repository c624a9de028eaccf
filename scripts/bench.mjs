// `npm run bench`: builds with optimisation, gets the peer that is compared with, measures, prints the
// table and writes docs/benchmarks.md. `npm run bench -- --smoke` is the short form, without the file.

import { existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { removeLeftovers } from "./leftovers.mjs";
import { BENCH_PACKAGES, TEST_PACKAGES, install } from "./machine.mjs";
import { buildSuite, prepareBuild } from "./prepare.mjs";
import { capture, root, show } from "./shell.mjs";

/** The peer: a sandbox for agents by another maker, with proxies instead of capture. */
const PEER = "@anthropic-ai/sandbox-runtime@0.0.78";

const smoke = process.argv.includes("--smoke");
await prepareBuild();
await install([...TEST_PACKAGES, ...BENCH_PACKAGES]);
const tools = join(root, "target", "tools", "peer");
if (!existsSync(join(tools, "node_modules"))) {
  mkdirSync(tools, { recursive: true });
  const args = ["install", "--no-audit", "--no-fund", "--silent", "--prefix", tools, PEER];
  const done = await capture("npm", args, { minutes: 5 });
  if (done.code !== 0) console.log(`The peer ${PEER} could not be installed; its rows will be empty.`);
}
const bench = buildSuite("bench", ["--release"]);
const code = show(bench.executable, [smoke ? "--smoke" : "--full"], { env: bench.env });
removeLeftovers();
process.exit(code);
