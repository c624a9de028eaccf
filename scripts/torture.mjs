// `npm run torture`: the kill loop at full length, 1,000 rounds; `npm run torture -- --rounds=200 --seed=7`
// is another length, or choices that were made before.

import { removeLeftovers } from "./leftovers.mjs";
import { TEST_PACKAGES, install } from "./machine.mjs";
import { buildSuite, prepareBuild } from "./prepare.mjs";
import { root, show } from "./shell.mjs";

await prepareBuild();
await install(TEST_PACKAGES);
const torture = buildSuite("torture");
removeLeftovers();
const asked = process.argv.slice(2);
const length = asked.some((argument) => /^--(rounds|minutes)=/.test(argument)) ? [] : ["--rounds=1000"];
const code = show(torture.executable, [...length, ...asked], { env: torture.env, cwd: `${root}/tests` });
removeLeftovers();
process.exit(code);
