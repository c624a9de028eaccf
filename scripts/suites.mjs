// The suites of `npm test`, in the order in which they run. Each gives `{ code, output }`, or
// `{ skipped: reason }`. One build serves them all: same profile, same features.

import { existsSync } from "node:fs";
import { homedir } from "node:os";
import { dirname, join } from "node:path";
import { capture, root, which } from "./shell.mjs";
import { buildUi, npm } from "./ui.mjs";

const cargo = (args, options) => capture("cargo", args, options);

let built;
let uiBuilt;

/** The app embeds the UI, so that is built before anything that embeds it; once. */
function ui() {
  uiBuilt ??= buildUi();
  return uiBuilt;
}

/** The UI reads well and its own tests pass; its build checks the types. */
async function checkUi() {
  const built = await ui();
  let output = built.output;
  let code = built.code;
  for (const script of code === 0 ? ["lint", "test"] : []) {
    const done = await npm(["run", script], 10);
    output += `\n# ${script}\n${done.output}`;
    code = code || done.code;
  }
  // As the other runners close, for the sum of all.
  const plain = output.replace(/\u001b\[[0-9;]*m/g, "");
  const count = (word) => Number(new RegExp(`^ *Tests .*?(\\d+) ${word}`, "m").exec(plain)?.[1] ?? 0);
  return { code, output: `${output}\n${count("passed")} passed, ${count("failed")} failed, ${count("skipped")} skipped\n` };
}

/** Test executables by package and target, from one build of everything; binaries included. */
async function build() {
  const embedded = await ui();
  if (embedded.code !== 0) return embedded;
  const env = { ...process.env, CARGO_TERM_COLOR: "never" };
  // Programs and tests in one call: apart they would have other features, and every dependency was built twice.
  const args = ["build", "--workspace", "--all-targets", "--locked", "--message-format=json-render-diagnostics"];
  const done = await cargo(args, { minutes: 40, stdoutOnly: true, env });
  if (done.code !== 0) return { code: done.code, output: done.errors };
  built = [];
  for (const line of done.output.split("\n").filter((text) => text.startsWith("{"))) {
    const message = JSON.parse(line);
    if (message.reason !== "compiler-artifact" || !message.executable || !message.profile.test) continue;
    built.push({
      file: message.executable,
      target: message.target.name,
      kind: message.target.kind[0],
      folder: dirname(message.manifest_path),
      bin: dirname(dirname(message.executable)),
      package: dirname(message.manifest_path).split("/").pop(),
    });
  }
  return { code: 0, output: `${built.length} test executables` };
}

/** The test executables of a build of everything, as `{ executables, code, output }`. */
export async function testExecutables() {
  const done = await build();
  return { ...done, executables: built ?? [] };
}

/** Runs test executables one after the other. */
async function execute(wanted, { minutes = 20, args = [], only = true } = {}) {
  if (!built) {
    const done = await build();
    if (done.code !== 0) return done;
  }
  let output = "";
  let code = 0;
  for (const item of built.filter(wanted)) {
    const env = { ...process.env, FOREMAN_TEST_BIN: item.bin, CARGO_MANIFEST_DIR: item.folder, RUST_BACKTRACE: "1" };
    const done = await capture(item.file, args, { cwd: item.folder, minutes, env });
    output += `\n# ${item.package} ${item.target}\n${done.output}`;
    code = code || done.code;
    if (done.code !== 0 && only && done.code === 124) break;
  }
  return { code, output };
}

/** Who reads what strangers write: properties over made-up and damaged input. */
const PARSERS = [
  { package: "foreman-cage", target: "foreman_cage", filter: "any_" }, // held calls, packets, DNS, netlink
  { package: "foreman-policy", target: "foreman_policy", filter: "any_" }, // policy files and what rules are made of
  { package: "foreman-shim", target: "it", filter: "hostile::" }, // the journal, the runner protocol, the station
  { package: "foreman-agent", target: "it", filter: "any_" }, // lines of agents
  { package: "foreman-engine", target: "foreman_engine", filter: "any_" }, // order files
];

/** Tries the parsers with other input each round, until the time is over or one of them fails. */
export async function fuzz(minutes) {
  const end = Date.now() + minutes * 60_000;
  for (let rounds = 1; ; rounds += 1) {
    let output = "";
    for (const { package: name, target, filter } of PARSERS) {
      const done = await execute((item) => item.package === name && item.target === target, { args: [filter] });
      output += done.output;
      if (done.code !== 0) return { code: done.code, output };
    }
    if (Date.now() >= end) return { code: 0, output: `${output}\n${rounds} rounds\n` };
  }
}

const whole = (target, options) => () => execute((item) => item.package === "tests" && item.target === target, options);

async function deny() {
  const homes = [process.env.CARGO_HOME ?? join(homedir(), ".cargo"), join(root, "target", "tools")];
  const found = which("cargo-deny") ?? homes.map((home) => join(home, "bin", "cargo-deny")).find((path) => existsSync(path));
  if (!found) {
    if (!process.env.CI) return { skipped: "cargo-deny is not installed: `cargo install cargo-deny --locked`" };
    const tools = join(root, "target", "tools");
    const done = await cargo(["install", "cargo-deny", "--locked", "--debug", "--root", tools], { minutes: 15 });
    if (done.code !== 0) return { skipped: "cargo-deny could not be installed here" };
  }
  // Crates of other platforms are part of the lock file and so of the check.
  const fetched = await cargo(["fetch", "--locked"], { minutes: 5 });
  if (fetched.code !== 0) return fetched;
  const program = found ?? join(root, "target", "tools", "bin", "cargo-deny");
  return capture(program, ["--offline", "--workspace", "check", "bans", "licenses", "sources"]);
}

/** The package is built of what is built already, looked into, and (where that is allowed) installed. */
async function checkPackage() {
  if (!which("dpkg-deb")) return { skipped: "packages are made on systems that have dpkg" };
  const done = await capture("node", ["--test", "--test-reporter=tap", "tests/package/deb.test.mjs"], { minutes: 15 });
  const count = (word) => Number(new RegExp(`^# ${word} (\\d+)`, "m").exec(done.output)?.[1] ?? 0);
  const counts = `${count("pass")} passed, ${count("fail")} failed, ${count("skipped")} skipped`;
  return { code: done.code, output: `${done.output}\n${counts}\n` };
}

/** All suites, in order. */
export const SUITES = [
  { name: "fmt", run: () => cargo(["fmt", "--all", "--check"]) },
  { name: "ui", run: checkUi },
  {
    name: "clippy",
    run: () => cargo(["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"], { minutes: 30 }),
  },
  { name: "build", run: build },
  { name: "arrows", run: whole("arrows") },
  {
    name: "schema",
    run: () => execute((item) => item.package === "foreman-engine" && item.target === "it", { args: ["interface"] }),
  },
  {
    name: "docs",
    run: () =>
      cargo(["doc", "--workspace", "--no-deps", "--locked"], {
        minutes: 20,
        env: { ...process.env, RUSTDOCFLAGS: "-D warnings" },
      }),
  },
  { name: "unit", run: () => execute((item) => item.package !== "tests") },
  { name: "fuzz", run: () => fuzz(1) },
  { name: "product", run: whole("product") },
  { name: "blackbox", run: whole("blackbox") },
  // Real agents only where `npm run test:agents` has installed them.
  { name: "agents", run: whole("agents") },
  // The window, and what it records of the engine for the one after it.
  { name: "desktop", run: whole("desktop", { minutes: 15 }) },
  { name: "browser", run: async () => ((await ui()).code === 0 ? npm(["run", "browser"], 15) : ui()) },
  { name: "package", run: checkPackage },
  { name: "powercut", run: whole("powercut") },
  { name: "runner", run: whole("runner") },
  { name: "escape", run: whole("escape", { minutes: 25 }) },
  { name: "tiers", run: whole("tiers") },
  { name: "clients", run: whole("clients") },
  // At least 50 rounds, and as many more as five minutes allow; the orders' case comes on top.
  { name: "torture", run: whole("torture", { minutes: 18, args: ["--minutes=5", "--least=50"] }) },
  { name: "bench-smoke", run: whole("bench", { args: ["--smoke"] }) },
  { name: "cargo-deny", run: deny },
];
