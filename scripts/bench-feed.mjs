// `npm run bench:feed`: builds with optimisation, plays a million events and a talkative agent to the real
// window, prints the table and writes its section of docs/benchmarks.md. `-- --smoke` is the short form,
// without the file and without optimisation.

import { removeLeftovers } from "./leftovers.mjs";
import { TEST_PACKAGES, install } from "./machine.mjs";
import { buildSuite, prepareBuild, prepareUi } from "./prepare.mjs";
import { show } from "./shell.mjs";

const smoke = process.argv.includes("--smoke");
await prepareBuild();
await install(TEST_PACKAGES);
await prepareUi();
const bench = buildSuite("feed", smoke ? [] : ["--release"]);
const code = show(bench.executable, [smoke ? "--smoke" : "--full"], { env: bench.env });
removeLeftovers();
process.exit(code);
