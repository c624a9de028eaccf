// `npm run bench:feed`: builds with optimisation, plays a million events and a talkative agent to the real
// window, prints the table and writes its section of docs/benchmarks.md. `-- --smoke` is the short form,
// without the file and without optimisation.

import { dirname } from "node:path";
import { BUILD_PACKAGES, TEST_PACKAGES, WINDOW_PACKAGES, install, toolchainFaults } from "./machine.mjs";
import { removeLeftovers } from "./leftovers.mjs";
import { ask, root, show } from "./shell.mjs";
import { buildUi } from "./ui.mjs";

const smoke = process.argv.includes("--smoke");
if (!(await install([...BUILD_PACKAGES, ...WINDOW_PACKAGES]))) process.exit(9);
await install(TEST_PACKAGES);
const faults = toolchainFaults();
if (faults.length > 0) {
  for (const fault of faults) console.error(fault);
  process.exit(9);
}
const ui = await buildUi();
if (ui.code !== 0) {
  console.error(ui.output);
  process.exit(ui.code);
}
const profile = smoke ? [] : ["--release"];
const built = show("cargo", ["build", ...profile, "--locked", "--workspace", "--bins"]);
if (built !== 0) process.exit(built);
const listing = ask("cargo", ["test", ...profile, "--locked", "--workspace", "--test", "feed", "--no-run", "--message-format=json"]);
const bench = (listing ?? "")
  .split("\n")
  .filter((line) => line.startsWith("{"))
  .map((line) => JSON.parse(line))
  .find((message) => message.executable && message.target?.name === "feed");
if (!bench) {
  console.error("The bench does not build.");
  process.exit(1);
}
const env = { ...process.env, FOREMAN_TEST_BIN: dirname(dirname(bench.executable)), CARGO_MANIFEST_DIR: `${root}/tests` };
const code = show(bench.executable, [smoke ? "--smoke" : "--full"], { env });
removeLeftovers();
process.exit(code);
