// `npm run torture`: the kill loop at full length, 1,000 rounds; `npm run torture -- --rounds=200 --seed=7`
// is another length, or choices that were made before.

import { dirname } from "node:path";
import { BUILD_PACKAGES, TEST_PACKAGES, WINDOW_PACKAGES, install, toolchainFaults } from "./machine.mjs";
import { removeLeftovers } from "./leftovers.mjs";
import { ask, root, show } from "./shell.mjs";

if (!(await install([...BUILD_PACKAGES, ...WINDOW_PACKAGES]))) process.exit(9);
await install(TEST_PACKAGES);
const faults = toolchainFaults();
if (faults.length > 0) {
  for (const fault of faults) console.error(fault);
  process.exit(9);
}
const built = show("cargo", ["build", "--locked", "--workspace", "--bins"]);
if (built !== 0) process.exit(built);
const listing = ask("cargo", [
  "test", "--locked", "--workspace", "--test", "torture", "--no-run", "--message-format=json",
]);
const torture = (listing ?? "")
  .split("\n")
  .filter((line) => line.startsWith("{"))
  .map((line) => JSON.parse(line))
  .find((message) => message.executable && message.target?.name === "torture");
if (!torture) {
  console.error("The kill loop does not build.");
  process.exit(1);
}
removeLeftovers();
const asked = process.argv.slice(2);
const length = asked.some((argument) => /^--(rounds|minutes)=/.test(argument)) ? [] : ["--rounds=1000"];
const env = { ...process.env, FOREMAN_TEST_BIN: dirname(dirname(torture.executable)), CARGO_MANIFEST_DIR: `${root}/tests` };
const code = show(torture.executable, [...length, ...asked], { env, cwd: `${root}/tests` });
removeLeftovers();
process.exit(code);
