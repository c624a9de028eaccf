// The UI's packages and its build, for whatever needs ui/dist: the app embeds it.

import { createHash } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { capture, root } from "./shell.mjs";

const folder = join(root, "ui");
const stamp = join(folder, "node_modules", ".lock-hash");

/** Installs the packages of the lock file, unless just those are there. Gives `{ code, output }`. */
export async function installUi() {
  const hash = createHash("sha256").update(readFileSync(join(folder, "package-lock.json"))).digest("hex");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === hash) return { code: 0, output: "" };
  const done = await npm(["ci", "--no-audit", "--no-fund"], 10);
  if (done.code === 0) writeFileSync(stamp, hash);
  return done;
}

/** Installs and builds the UI into ui/dist. Gives `{ code, output }`. */
export async function buildUi() {
  const installed = await installUi();
  if (installed.code !== 0) return installed;
  return npm(["run", "build"], 10);
}

/** Runs npm in the UI's folder. */
export function npm(args, minutes) {
  return capture("npm", args, { cwd: folder, minutes });
}
