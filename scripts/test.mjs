// `npm test`: everything that tests need, then every suite; `npm test -- NAME…` runs only those.
// A suite that fails does not stop the ones after it. Ends with the minutes of each suite, the
// runners' own closing lines, and one line with all counts.

import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { removeLeftovers } from "./leftovers.mjs";
import { TEST_PACKAGES, install } from "./machine.mjs";
import { prepareBuild } from "./prepare.mjs";
import { isRoot, root } from "./shell.mjs";
import { SUITES } from "./suites.mjs";

const names = process.argv.slice(2);
const unknown = names.filter((name) => !SUITES.some((suite) => suite.name === name));
if (unknown.length > 0) {
  console.error(`There is no suite "${unknown[0]}". Suites: ${SUITES.map((suite) => suite.name).join(", ")}.`);
  process.exit(2);
}

// What surrounds us must not steer the product under test.
for (const name of ["http_proxy", "https_proxy", "all_proxy", "no_proxy", "ftp_proxy"]) {
  delete process.env[name];
  delete process.env[name.toUpperCase()];
}

const begin = Date.now();
await prepareBuild();
if (!(await install(TEST_PACKAGES))) {
  console.log("Cases that need what is missing will be skipped, with their reasons.");
}
if (!isRoot) {
  console.log("Not started as root: cases that run the product as root will be skipped.");
}
const rows = [{ name: "set-up", ms: Date.now() - begin, result: "ok", counts: [0, 0, 0] }];

const logs = join(root, "target", "test-logs");
mkdirSync(logs, { recursive: true });
const closing = [];
for (const suite of SUITES.filter((item) => names.length === 0 || names.includes(item.name))) {
  const start = Date.now();
  console.log(`\n=== ${suite.name}`);
  removeLeftovers();
  const done = await suite.run();
  const ms = Date.now() - start;
  if (done.skipped) {
    console.log(`skipped: ${done.skipped}`);
    rows.push({ name: suite.name, ms, result: "skipped", counts: [0, 0, 1] });
    continue;
  }
  writeFileSync(join(logs, `${suite.name}.log`), done.output);
  const { lines, counts } = summary(done.output);
  if (lines.length === 0) counts[done.code === 0 ? 0 : 1] += 1;
  if (done.code !== 0 && counts[1] === 0) counts[1] += 1;
  if (done.code !== 0) console.log(done.output);
  else printSkips(done.output);
  for (const line of lines) {
    console.log(line);
    closing.push(`${suite.name}: ${line}`);
  }
  const result = done.code === 0 ? "ok" : `FAILED (exit code ${done.code})`;
  console.log(`${suite.name}: ${result}, ${minutes(ms)} min`);
  rows.push({ name: suite.name, ms, result, counts });
}
removeLeftovers();

console.log("\nminutes  suite         result");
for (const row of rows) {
  console.log(`${minutes(row.ms).padStart(7)}  ${row.name.padEnd(12)}  ${row.result}`);
}
console.log(`${minutes(Date.now() - begin).padStart(7)}  in all\n`);
for (const line of closing) console.log(line);
const total = [0, 1, 2].map((index) => rows.reduce((sum, row) => sum + row.counts[index], 0));
console.log(`\n${total[0]} passed, ${total[1]} failed, ${total[2]} skipped`);
process.exitCode = total[1] > 0 ? 1 : 0;

/** The closing lines of the runners in an output, and their sum as [passed, failed, skipped]. */
function summary(output) {
  const lines = [];
  const counts = [0, 0, 0];
  for (const line of output.split("\n")) {
    const libtest = /^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored/.exec(line);
    const own = /^(\d+) passed, (\d+) failed, (\d+) skipped$/.exec(line);
    const match = libtest ?? own;
    if (!match) continue;
    const found = match.slice(1, 4).map(Number);
    found.forEach((count, index) => (counts[index] += count));
    // Executables without a test say nothing worth repeating.
    if (found.some((count) => count > 0)) lines.push(line);
  }
  return { lines, counts };
}

/** A table or skips that a passing suite printed for people. */
function printSkips(output) {
  for (const line of output.split("\n")) {
    if (/^(skipped  |\| )/.test(line)) console.log(line);
  }
}

function minutes(ms) {
  return (ms / 60_000).toFixed(1);
}
