// `npm start`: makes sure that everything needed to build is there, builds, and starts the app. On a
// machine without a display it says so and offers `foreman demo` on this terminal. With arguments it
// starts the command line with them: `npm start -- doctor`.

import { join } from "node:path";
import { createInterface } from "node:readline/promises";
import { BUILD_PACKAGES, RUN_PACKAGES, WINDOW_PACKAGES, install } from "./machine.mjs";
import { prepareBuild, prepareUi } from "./prepare.mjs";
import { ask, root, show } from "./shell.mjs";

const arguments_ = process.argv.slice(2);
const display = Boolean(process.env.DISPLAY || process.env.WAYLAND_DISPLAY);
const app = arguments_.length === 0 && (display || process.platform !== "linux");

await prepareBuild(app ? [...BUILD_PACKAGES, ...WINDOW_PACKAGES] : BUILD_PACKAGES);
if (app) {
  await install(RUN_PACKAGES);
  console.log("Building the window …");
  await prepareUi();
}
// The development profile: it builds in a third of the time, and a first look does not need more.
const packages = ["foreman-cli", "foreman-shim", ...(app ? ["sdf"] : [])];
const built = show("cargo", ["build", "--locked", ...packages.flatMap((name) => ["-p", name])]);
if (built !== 0) process.exit(built);
const metadata = JSON.parse(ask("cargo", ["metadata", "--no-deps", "--format-version=1"]) ?? "{}");
const target = metadata.target_directory ?? join(root, "target");
const program = (name) => join(target, "debug", name);

if (app) process.exit(show(program("sdf"), []));
if (arguments_.length > 0) process.exit(show(program("foreman"), arguments_));
console.log("\nThere is no display here (neither DISPLAY nor WAYLAND_DISPLAY is set), so the window cannot open.");
console.log("The same engine has a command line. Its demo is one whole run, from a held action to the merge.");
if (process.stdin.isTTY && !(await agreed("Start `foreman demo` on this terminal? [Y/n] "))) {
  console.log(`Later: ${program("foreman")} demo; all commands: ${program("foreman")} --help`);
  process.exit(0);
}
process.exit(show(program("foreman"), ["demo"]));

async function agreed(question) {
  const asking = createInterface({ input: process.stdin, output: process.stdout });
  const answer = await asking.question(question);
  asking.close();
  return !/^\s*n/i.test(answer);
}
