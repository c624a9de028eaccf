// `npm run build:desktop`: builds UI, command line, supervisor and app, and packs them: a .deb, and an
// AppImage where the tools for it can be had. `-- --debug` packs the development build instead, which
// is what the tests install.

import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { BUILD_PACKAGES, PACK_PACKAGES, WINDOW_PACKAGES } from "./machine.mjs";
import { prepareBuild, prepareUi } from "./prepare.mjs";
import { ask, capture, root, show } from "./shell.mjs";

/** Names of the two programs that come with the app. */
const PROGRAMS = ["foreman", "foreman-shim"];

const debug = process.argv.includes("--debug");
const profile = debug ? "debug" : "release";

await prepareBuild([...BUILD_PACKAGES, ...WINDOW_PACKAGES, ...PACK_PACKAGES]);
await prepareUi();
const flags = debug ? [] : ["--release"];
// In one go, so that both builds agree about features and nothing is compiled twice.
const built = show("cargo", ["build", "--locked", ...flags, "--workspace", "--bins"]);
if (built !== 0) process.exit(built);
const metadata = JSON.parse(ask("cargo", ["metadata", "--no-deps", "--format-version=1"]) ?? "{}");
const target = metadata.target_directory ?? join(root, "target");

const files = Object.fromEntries(PROGRAMS.map((name) => [`/usr/bin/${name}`, join(target, profile, name)]));
files["/etc/apparmor.d/foreman-shim"] = join(root, "src-tauri/packaging/foreman-shim.apparmor");
const config = JSON.stringify({ bundle: { linux: { deb: { files } } } });

const deb = await bundle("deb");
if (deb.code !== 0) {
  console.error(deb.output);
  process.exit(deb.code);
}
const made = packages("deb", ".deb");
if (!debug) {
  const image = await bundle("appimage");
  if (image.code === 0) made.push(...packages("appimage", ".AppImage"));
  else console.log("No AppImage: its tools could not be had here. The .deb is complete without it.");
}
for (const file of made) console.log(file);

/** Packs what was built; nothing is compiled again. */
function bundle(kind) {
  const cli = join(root, "ui/node_modules/.bin/tauri");
  const mode = debug ? ["--debug"] : [];
  return capture(cli, ["bundle", ...mode, "--bundles", kind, "--config", config], { minutes: 20 });
}

function packages(kind, ending) {
  const folder = join(target, profile, "bundle", kind);
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((name) => name.endsWith(ending))
    .map((name) => join(folder, name));
}
