// What the scripts beside `npm test` share: the machine made ready, and one suite built to be run by itself.

import { dirname } from "node:path";
import { BUILD_PACKAGES, WINDOW_PACKAGES, install, toolchainFaults } from "./machine.mjs";
import { ask, root } from "./shell.mjs";
import { buildUi } from "./ui.mjs";

/** Installs what every build needs, or ends the process with a sentence that says what is missing. */
export async function prepareBuild(packages = [...BUILD_PACKAGES, ...WINDOW_PACKAGES]) {
  if (!(await install(packages))) process.exit(9);
  const faults = toolchainFaults();
  for (const fault of faults) console.error(fault);
  if (faults.length > 0) process.exit(9);
}

/** Builds the UI, or ends the process with what the build said. */
export async function prepareUi() {
  const ui = await buildUi();
  if (ui.code === 0) return;
  console.error(ui.output);
  process.exit(ui.code);
}

/**
 * Builds every program and the suite `name`, with cargo's flags for a profile. Gives the suite's executable and
 * the environment in which it finds what it tests; ends the process where it does not build. One call, because
 * programs built without tests beside them have other features, and so every dependency once more.
 */
export function buildSuite(name, profile = []) {
  const args = ["build", ...profile, "--locked", "--workspace", "--bins", "--test", name, "--message-format=json-render-diagnostics"];
  const suite = (ask("cargo", args, { stdio: ["ignore", "pipe", "inherit"] }) ?? "")
    .split("\n")
    .filter((line) => line.startsWith("{"))
    .map((line) => JSON.parse(line))
    .find((message) => message.executable && message.profile?.test && message.target?.name === name);
  if (!suite) {
    console.error(`The suite ${name} does not build.`);
    process.exit(1);
  }
  const env = { ...process.env, FOREMAN_TEST_BIN: dirname(dirname(suite.executable)), CARGO_MANIFEST_DIR: `${root}/tests` };
  return { executable: suite.executable, env };
}
