// `npm run fuzz`: the parsers of what strangers write, tried with made-up and damaged input for ten minutes;
// `npm run fuzz -- --minutes=N` is another length. What fails is kept in `proptest-regressions`, to be tried first.

import { prepareBuild } from "./prepare.mjs";
import { fuzz } from "./suites.mjs";

const asked = process.argv.slice(2).map((word) => /^--minutes=(\d+(?:\.\d+)?)$/.exec(word));
if (asked.some((match) => !match)) {
  console.error("It takes --minutes=N and nothing else.");
  process.exit(2);
}
await prepareBuild();
const done = await fuzz(Number(asked[0]?.[1] ?? 10));
console.log(done.output);
process.exit(done.code);
