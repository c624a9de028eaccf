// The package, as an operator gets it: what is in it, that it installs, that an ordinary user's app and
// command line find each other there, and that nothing is left when it is removed.
// Installs into the machine that it runs on, so only as root and where CI or FOREMAN_TEST_INSTALL says
// that the machine is there for it.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, chownSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { before, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { root } from "../../scripts/shell.mjs";

const isRoot = process.getuid() === 0;
const mayInstall = isRoot && Boolean(process.env.CI || process.env.FOREMAN_TEST_INSTALL);
const INSTALL_SKIP = mayInstall ? false : "installs into this machine: needs root and CI=true or FOREMAN_TEST_INSTALL=1";
const PATIENCE_MS = 60_000;
/** Starts the app on a screen of its own; the first line of the pipe is the screen's number. */
const WITH_A_SCREEN = `mkfifo screen && Xvfb -displayfd 3 -nolisten tcp -screen 0 1280x800x24 3>screen 2>/dev/null &
  while [ ! -p screen ]; do :; done
  read -r number <screen && DISPLAY=":$number" exec sdf`;

let deb;

function run(program, args, options = {}) {
  const done = spawnSync(program, args, { encoding: "utf8", cwd: root, ...options });
  assert.equal(done.status, 0, `${program} ${args.join(" ")}: ${done.stderr}${done.stdout}`);
  return done.stdout;
}

before(() => {
  const said = run("node", ["scripts/build-desktop.mjs", "--debug"], { maxBuffer: 1 << 28 });
  deb = said.trim().split("\n").find((line) => line.endsWith(".deb"));
  assert.ok(deb && existsSync(deb), said);
});

test("the package has the app, its two programs, the link scheme and the AppArmor profile", () => {
  const files = run("dpkg-deb", ["--contents", deb]).split("\n").map((line) => line.split(/\s+/).slice(5).join(" ").replace(/^\.\//, ""));
  for (const wanted of [
    "usr/bin/sdf",
    "usr/bin/foreman",
    "usr/bin/foreman-shim",
    "usr/share/applications/sdf.desktop",
    "etc/apparmor.d/foreman-shim",
  ]) {
    assert.ok(files.includes(wanted), `${wanted} is not in ${files.join("\n")}`);
  }
  assert.ok(files.some((name) => /icons\/hicolor\/128x128\/apps\/sdf\.png$/.test(name)), files.join("\n"));
  const unpacked = mkdtempSync(join(tmpdir(), "sdf-deb-"));
  try {
    run("dpkg-deb", ["--raw-extract", deb, unpacked]);
    const entry = readFileSync(join(unpacked, "usr/share/applications/sdf.desktop"), "utf8");
    assert.match(entry, /^Exec=sdf %u$/m);
    assert.match(entry, /^MimeType=x-scheme-handler\/sdf;$/m);
    assert.match(readFileSync(join(unpacked, "etc/apparmor.d/foreman-shim"), "utf8"), /^\s*userns,$/m);
    const control = readFileSync(join(unpacked, "DEBIAN/control"), "utf8");
    assert.match(control, /^Depends:.*\bgit\b/m);
    assert.match(control, /^Depends:.*libwebkit2gtk-4\.1-0/m);
    assert.ok(existsSync(join(unpacked, "DEBIAN/postinst")));
  } finally {
    rmSync(unpacked, { recursive: true, force: true });
  }
});

test("installed, the app of an ordinary user hosts an engine that the command line joins", { skip: INSTALL_SKIP }, async () => {
  const user = `fm-test-${process.pid}-9`;
  const home = join("/var/lib", user);
  const env = { DEBIAN_FRONTEND: "noninteractive", PATH: process.env.PATH };
  let app;
  try {
    run("apt-get", ["install", "-y", "-qq", "--no-install-recommends", deb], { env });
    run("useradd", ["--home-dir", home, "--create-home", "--shell", "/bin/sh", user]);
    const [uid, gid] = ["-u", "-g"].map((flag) => Number(run("id", [flag, user])));
    const runtime = join(home, "runtime");
    mkdirSync(runtime, { mode: 0o700 });
    chownSync(runtime, uid, gid);
    const own = { HOME: home, XDG_RUNTIME_DIR: runtime, PATH: "/usr/bin:/bin", WEBKIT_DISABLE_DMABUF_RENDERER: "1" };
    const asUser = (program, args) =>
      spawnSync(program, args, { uid, gid, cwd: home, env: own, encoding: "utf8" });
    assert.match(asUser("foreman", ["--version"]).stdout, /^foreman \d/);
    app = spawn("dbus-run-session", ["--", "sh", "-c", WITH_A_SCREEN], {
      uid, gid, cwd: home, env: own, detached: true, stdio: ["ignore", "pipe", "pipe"],
    });
    const said = [];
    app.stdout.on("data", (chunk) => said.push(chunk));
    app.stderr.on("data", (chunk) => said.push(chunk));
    const data = join(home, ".local/share/foreman");
    const deadline = Date.now() + PATIENCE_MS;
    let runs;
    while (Date.now() < deadline) {
      assert.equal(app.exitCode, null, `the app ended: ${Buffer.concat(said)}`);
      if (existsSync(join(data, "state"))) {
        runs = asUser("foreman", ["runs", "--json"]);
        if (runs.status === 0) break;
      }
      await delay(100);
    }
    assert.equal(runs?.status, 0, `${runs?.stderr}\n${Buffer.concat(said)}`);
    const doctor = asUser("foreman", ["doctor", "--json"]);
    assert.match(doctor.stdout, /"walls"/, doctor.stderr);
    const handler = asUser("gio", ["mime", "x-scheme-handler/sdf"]);
    assert.match(handler.stdout, /sdf\.desktop/, handler.stderr);
  } finally {
    if (app) {
      try {
        process.kill(-app.pid, "SIGKILL");
      } catch {
        // It ended by itself.
      }
    }
    spawnSync("pkill", ["-KILL", "-u", user]);
    // The desktop's portal shows documents by a mount of its own, where it is installed.
    spawnSync("umount", ["--lazy", join(home, "runtime/doc")]);
    spawnSync("userdel", [user]);
    rmSync(home, { recursive: true, force: true });
    run("apt-get", ["purge", "-y", "-qq", "sdf"], { env });
  }
  for (const gone of ["/usr/bin/sdf", "/usr/bin/foreman-shim", "/etc/apparmor.d/foreman-shim"]) {
    assert.ok(!existsSync(gone), `${gone} is left`);
  }
});

