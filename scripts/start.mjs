// `npm start`: makes sure that everything needed to build is there, builds, and starts the app. Until
// the desktop app exists that is `foreman demo`, on this terminal. `npm run doctor` starts
// `foreman doctor` instead.

import { join } from "node:path";
import { BUILD_PACKAGES, install, toolchainFaults } from "./machine.mjs";
import { ask, root, show } from "./shell.mjs";

const arguments_ = process.argv.slice(2);
const command = arguments_.length > 0 ? arguments_ : ["demo"];

if (!(await install(BUILD_PACKAGES))) process.exit(9);
const faults = toolchainFaults();
if (faults.length > 0) {
  for (const fault of faults) console.error(fault);
  process.exit(9);
}
// The development profile: it builds in a third of the time, and a demo does not need more.
const built = show("cargo", ["build", "--locked", "-p", "foreman-cli", "-p", "foreman-shim"]);
if (built !== 0) process.exit(built);
const metadata = JSON.parse(ask("cargo", ["metadata", "--no-deps", "--format-version=1"]) ?? "{}");
const target = metadata.target_directory ?? join(root, "target");
process.exit(show(join(target, "debug", "foreman"), command));
