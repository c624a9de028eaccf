// `npm run test:vm`: boots a stock Debian with systemd, control groups of version 2 and an ordinary user, and runs
// there, as that user, what a build machine mostly cannot: bounds kept by a live systemd, escapes under another
// kernel, and the tiers, with user namespaces restricted and switched off. `-- --stage=NAME` runs one stage (names
// below), further words are filters of its suites, `--kernel=backports` takes the newer kernel.
//
// What it needs is said in one line where it cannot be had, and then nothing is run.

import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { image, VM_PACKAGES } from "../tests/vm/image.mjs";
import { acceleration, start } from "../tests/vm/machine.mjs";
import { install, missing } from "./machine.mjs";
import { prepareBuild } from "./prepare.mjs";
import { testExecutables } from "./suites.mjs";

const PROGRAMS = ["foreman", "foreman-shim", "fm-attack", "fm-test-server"];
/** Where the programs are in the machine. */
const THERE = "/opt/payload";

/** Switches a kernel may have, the state that a stage needs them in, and what runs then. */
const STAGES = [
  {
    name: "full",
    words: "as it comes",
    suites: [
      { name: "bounds", target: "product", filter: ["bounds::"], env: "FOREMAN_TEST_BARE=1" },
      { name: "escape", target: "escape", filter: [] },
      { name: "weaker", target: "product", filter: ["weaker::"] },
      { name: "tiers", target: "tiers", filter: [], env: "FOREMAN_TEST_TIER=full" },
    ],
  },
  {
    name: "apparmor",
    words: "AppArmor restricts user namespaces",
    setting: ["kernel.apparmor_restrict_unprivileged_userns", 1, 0],
    suites: [{ name: "tiers", target: "tiers", filter: [], env: "FOREMAN_TEST_TIER=no_namespaces" }],
  },
  {
    name: "userns-clone",
    words: "user namespaces are root's",
    setting: ["kernel.unprivileged_userns_clone", 0, 1],
    suites: [{ name: "tiers", target: "tiers", filter: [], env: "FOREMAN_TEST_TIER=no_namespaces" }],
  },
  {
    name: "no-userns",
    words: "there are no user namespaces",
    setting: ["user.max_user_namespaces", 0, 15000],
    suites: [{ name: "tiers", target: "tiers", filter: [], env: "FOREMAN_TEST_TIER=no_namespaces" }],
  },
];

const words = process.argv.slice(2);
const option = (name) => words.find((word) => word.startsWith(`--${name}=`))?.slice(name.length + 3);
const filters = words.filter((word) => !word.startsWith("--"));
const stages = STAGES.filter((stage) => [undefined, stage.name].includes(option("stage")));
if (stages.length === 0) {
  console.error(`There is no stage "${option("stage")}". Stages: ${STAGES.map((stage) => stage.name).join(", ")}.`);
  process.exit(2);
}

/** Ends with one line: nothing was run, and why. */
function cannot(why) {
  console.log(`test:vm did not run: ${why}.`);
  process.exit(9);
}

if (process.arch !== "x64") cannot("the test machine is made for x86_64 only");
await prepareBuild();
if (!(await install(VM_PACKAGES))) cannot(`these packages cannot be had: ${missing(VM_PACKAGES).map((item) => item.name).join(", ")}`);
const folder = mkdtempSync(join(tmpdir(), "foreman-vm-payload-"));
let machine;
let failed = 0;
try {
  const disk = makeDisk();
  const payload = await pack();
  machine = await boot(disk, payload);
  const about = await machine.shell("uname -r; systemctl --version | head -1");
  const [kernel, systemd] = about.output.trim().split("\n");
  console.log(`up after ${machine.seconds} s (${machine.helped === "kvm" ? "KVM" : "emulated processor"}): Linux ${kernel}, ${systemd}`);
  for (const stage of stages) failed += await run(stage);
} catch (error) {
  await machine?.down();
  rmSync(folder, { recursive: true, force: true });
  cannot(error.message);
}
await machine.down();
rmSync(folder, { recursive: true, force: true });
process.exitCode = failed === 0 ? 0 : 1;

function makeDisk() {
  return image(option("kernel") ?? "stable");
}

async function boot(disk, payload) {
  console.log(`starting the test machine (${acceleration()})`);
  return start(disk, payload);
}

/** The built programs and suites as a file system, without what only a debugger reads. */
async function pack() {
  const { executables, code, output } = await testExecutables();
  if (code !== 0) {
    console.error(output);
    throw new Error("the suites do not build");
  }
  const staged = join(folder, "files");
  mkdirSync(join(staged, "bin"), { recursive: true });
  const targets = [...new Set(stages.flatMap((stage) => stage.suites.map((suite) => suite.target)))];
  const suites = executables.filter((item) => item.package === "tests" && targets.includes(item.target));
  const bin = suites[0].bin;
  const files = [...PROGRAMS.map((name) => [join(bin, name), name]), ...suites.map((item) => [item.file, `suite-${item.target}`])];
  for (const [from, name] of files) {
    const to = join(staged, "bin", name);
    try {
      execFileSync("strip", ["--strip-debug", "-o", to, from]);
    } catch {
      cpSync(from, to);
    }
  }
  const disk = join(folder, "payload.ext4");
  execFileSync("mke2fs", ["-q", "-F", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-d", staged, disk, "1500M"]);
  return disk;
}

/** Runs a stage's suites; gives how many of them failed. Says in a line when the kernel has no such switch. */
async function run(stage) {
  console.log(`\n=== ${stage.name}: ${stage.words}`);
  const [name, value, before] = stage.setting ?? [];
  if (name) {
    const set = await machine.shell(`sysctl -q -w ${name}=${value}`, { user: "root" });
    if (set.code !== 0) {
      console.log(`skipped: this kernel has no ${name}`);
      return 0;
    }
  }
  let failures = 0;
  for (const suite of stage.suites) {
    const filter = filters.length > 0 ? filters : suite.filter;
    const script =
      `mkdir -p ~/scratch; export FOREMAN_TEST_BIN=${THERE}/bin FOREMAN_TEST_SCRATCH=$HOME/scratch FOREMAN_TEST_PATIENCE=6 FOREMAN_TEST_BUS=$XDG_RUNTIME_DIR/bus ${suite.env ?? ""}; ` +
      `exec ${THERE}/bin/suite-${suite.target} --test-threads=2 ${filter.join(" ")}`;
    const done = await machine.shell(script, { minutes: 40 });
    const lines = done.output.split("\n");
    const closing = lines.findLast((line) => /^\d+ passed, \d+ failed, \d+ skipped$/.test(line));
    if (done.code !== 0) console.log(done.output);
    for (const line of lines.filter((text) => text.startsWith("skipped  "))) console.log(line);
    console.log(`${stage.name} ${suite.name}: ${closing ?? `no closing line, exit code ${done.code}`}`);
    failures += done.code === 0 && closing ? 0 : 1;
  }
  if (name) await machine.shell(`sysctl -q -w ${name}=${before}`, { user: "root" });
  return failures;
}
