// What must be on the machine: the toolchain, and system packages, which are installed by apt after
// saying what and why. Root installs at once; anybody else is asked first, on a terminal.

import { existsSync, readdirSync } from "node:fs";
import { homedir, userInfo } from "node:os";
import { delimiter, join } from "node:path";
import { createInterface } from "node:readline/promises";
import { ask, isRoot, show, which } from "./shell.mjs";

const RUST = [1, 95];
const GIT = [2, 30];

/** Needed to build. `has` tells whether it is there. */
export const BUILD_PACKAGES = [
  { name: "build-essential", why: "compiles the C parts: SQLite, libgit2", has: () => which("cc") && which("make") },
  { name: "pkg-config", why: "finds system libraries", has: () => which("pkg-config") },
  { name: "lld", why: "links, much faster than the default linker", has: () => which("ld.lld") },
  { name: "git", why: "agents work in git worktrees", has: () => which("git") },
];

/** Needed to build the app's window, beside those. */
export const WINDOW_PACKAGES = [
  { name: "libwebkit2gtk-4.1-dev", why: "draws the app's window", has: () => compilesWith("webkit2gtk-4.1") },
];

/** Needed to make the package of what was built. */
export const PACK_PACKAGES = [
  {
    name: "libayatana-appindicator3-dev",
    why: "the packer looks up the tray's library",
    has: () => compilesWith("ayatana-appindicator3-0.1"),
  },
];

/** The app starts without them, and says what it misses. */
export const RUN_PACKAGES = [
  { name: "libayatana-appindicator3-1", why: "the app's place in the tray", has: () => loads("libayatana-appindicator3.so.1") },
];

/** Needed to test, beside those to build. */
export const TEST_PACKAGES = [
  { name: "curl", why: "a client under test", has: () => which("curl") },
  { name: "wget", why: "a client under test", has: () => which("wget") },
  { name: "busybox", why: "a client under test", has: () => which("busybox") },
  { name: "python3", why: "a client under test", has: () => which("python3") },
  { name: "default-jdk-headless", why: "a client under test (Java)", has: () => which("javac") },
  { name: "postgresql-client", why: "a client under test (psql)", has: () => which("psql") },
  { name: "postgresql", why: "the server that psql talks to", has: hasPostgres },
  { name: "openssh-client", why: "a client under test (git over ssh)", has: () => which("ssh") },
  { name: "openssh-server", why: "the server that ssh talks to", has: () => which("sshd") },
  { name: "bubblewrap", why: "the sandbox that benches compare with", has: () => which("bwrap") },
  { name: "desktop-file-utils", why: "tells a desktop which program opens sdf:// links", has: () => which("update-desktop-database") },
  { name: "iproute2", why: "attacks on routes", has: () => which("ip") },
  { name: "nftables", why: "attacks on firewall rules", has: () => which("nft") },
  { name: "util-linux", why: "enters the namespaces that tests make", has: () => which("nsenter") },
  { name: "passwd", why: "makes the user that tests run as", has: () => which("useradd") },
  { name: "procps", why: "lists processes", has: () => which("ps") },
  { name: "webkit2gtk-driver", why: "clicks in the app's window", has: () => which("WebKitWebDriver") },
  { name: "xvfb", why: "the screen that the window is tested on", has: () => which("Xvfb") },
  { name: "dbus-daemon", why: "the session bus that the window is tested on", has: () => which("dbus-daemon") },
  { name: "gnome-keyring", why: "a keyring that keeps secrets", has: () => which("gnome-keyring-daemon") },
  { name: "chromium", why: "a second browser for the app's screens", has: () => which("chromium") || which("chromium-browser") },
  { name: "libglib2.0-bin", why: "asks who opens the app's links", has: () => which("gio") },
  ...RUN_PACKAGES,
  ...PACK_PACKAGES,
];

/** Needed to measure, beside those to test. */
export const BENCH_PACKAGES = [
  { name: "socat", why: "the peer that benches compare with needs it", has: () => which("socat") },
  { name: "ripgrep", why: "the peer that benches compare with needs it", has: () => which("rg") },
];

function compilesWith(library) {
  return ask("pkg-config", ["--exists", library]) !== undefined;
}

function loads(library) {
  return ["/usr/lib", "/usr/lib64", `/usr/lib/${process.arch === "arm64" ? "aarch64" : "x86_64"}-linux-gnu`].some(
    (folder) => existsSync(join(folder, library)),
  );
}

function hasPostgres() {
  if (which("postgres")) return true;
  const folder = "/usr/lib/postgresql";
  return existsSync(folder) && readdirSync(folder).length > 0;
}

/**
 * Adds the usual places of cargo to PATH where it is missing, and finds rustup's toolchains when HOME is
 * not the account's own home.
 */
export function findCargo() {
  const own = userInfo().homedir;
  if (!which("cargo")) {
    const homes = [process.env.CARGO_HOME, join(homedir(), ".cargo"), join(own, ".cargo"), "/usr/local/cargo"];
    const folders = homes.filter(Boolean).map((home) => join(home, "bin"));
    const folder = folders.find((bin) => existsSync(join(bin, "cargo")));
    if (folder) process.env.PATH = `${folder}${delimiter}${process.env.PATH}`;
  }
  if (!process.env.RUSTUP_HOME && homedir() !== own && !existsSync(join(homedir(), ".rustup"))) {
    const toolchains = join(own, ".rustup");
    if (existsSync(toolchains)) process.env.RUSTUP_HOME = toolchains;
  }
}

/** What is wrong with the toolchain, as sentences; empty when all is there. */
export function toolchainFaults() {
  findCargo();
  const faults = [];
  const rust = version(ask("rustc", ["--version"]));
  if (!rust || !which("cargo")) {
    faults.push(
      "Rust is not installed. Get it with rustup: either the package of your distribution " +
        "(`sudo apt install rustup && rustup default stable`) or as rust-lang.org/tools/install says. " +
        `Version ${RUST.join(".")} or newer is needed.`,
    );
  } else if (isOlder(rust, RUST)) {
    faults.push(`Rust is ${rust.join(".")}; ${RUST.join(".")} or newer is needed: run \`rustup update stable\`.`);
  }
  const git = version(ask("git", ["--version"]));
  if (git && isOlder(git, GIT)) {
    faults.push(`git is ${git.join(".")}; ${GIT.join(".")} or newer is needed.`);
  }
  if (process.platform !== "linux") {
    faults.push("The cage needs Linux; this system has none of it yet.");
  }
  return faults;
}

function version(text) {
  const match = /(\d+)\.(\d+)/.exec(text ?? "");
  return match ? [Number(match[1]), Number(match[2])] : undefined;
}

function isOlder([major, minor], [wantedMajor, wantedMinor]) {
  return major < wantedMajor || (major === wantedMajor && minor < wantedMinor);
}

/** Those packages that are not there. */
export function missing(packages) {
  return packages.filter((item) => !item.has());
}

/**
 * Installs what is missing; says what and why first. Gives true when everything is there afterwards.
 * Does nothing, silently, when nothing is missing.
 */
export async function install(packages) {
  const wanted = missing(packages);
  if (wanted.length === 0) return true;
  console.log("These system packages are missing:");
  for (const item of wanted) console.log(`  ${item.name.padEnd(22)} ${item.why}`);
  const names = wanted.map((item) => item.name);
  if (!which("apt-get")) {
    console.log("This system has no apt: install them with its own package manager, then start again.");
    return false;
  }
  const command = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", ...names];
  if (!isRoot && !(await mayUseSudo(command))) {
    console.log(`To install them: sudo ${command.join(" ")}`);
    return false;
  }
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  const run = (args) => (isRoot ? show(args[0], args.slice(1), { env }) : show("sudo", args));
  run(["apt-get", "-qq", "update"]);
  run(command);
  const still = missing(packages);
  if (still.length > 0) {
    console.log(`Still missing: ${still.map((item) => item.name).join(", ")}.`);
  }
  return still.length === 0;
}

async function mayUseSudo(command) {
  if (!process.stdin.isTTY || !process.stdout.isTTY || !which("sudo")) return false;
  const lines = createInterface({ input: process.stdin, output: process.stdout });
  const said = await lines.question(`Run \`sudo ${command.join(" ")}\`? [y/N] `);
  lines.close();
  return /^y(es)?$/i.test(said.trim());
}
