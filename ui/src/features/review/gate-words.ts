// The gate's summary in the order in which a reviewer weighs it.

import type { CheckResult, GateSummary, MergeEntry, StepResult } from '@/ipc/bindings';
import { count } from '@/lib/count';
import type { Tone } from '@/lib/state';

export interface GatePart {
  readonly id: string;
  readonly title: string;
  readonly tone: Tone;
  /** Why it matters. */
  readonly why: string;
  readonly items: readonly string[];
}

/** What speaks for a second look; parts without entries are left out. */
export function gateParts(gate: GateSummary, flags: readonly string[]): GatePart[] {
  // Checks that did not pass are flags, too; they have a panel of their own.
  const failed = new Set(notPassed(gate.checks).map((check) => `check ${check.words}`));
  const secrets = gate.secrets ?? [];
  const parts: GatePart[] = [
    { id: 'secrets', title: 'Secrets', tone: 'bad', why: 'What is merged stays in the history: replace the secret where it counts. `foreman merge --with-secret` takes the change over all the same.', items: secrets },
    { id: 'flags', title: 'Look at these first', tone: 'bad', why: 'Tools may load or run such files by themselves, outside of any cage, as soon as they are in your checkout.', items: flags.filter((flag) => !failed.has(flag) && !secrets.includes(flag)) },
    { id: 'steering', title: 'Could steer its own checks', tone: 'warn', why: 'Its checks may mean less than they did before this change.', items: gate.steering },
    { id: 'submodules', title: 'Links to other repositories', tone: 'warn', why: 'What is behind a link is not in this diff.', items: gate.submodules },
    { id: 'outside', title: 'Outside the declared scope', tone: 'warn', why: 'The order said that it would change other paths.', items: gate.outside_scope },
    { id: 'amendments', title: 'Decisions about its policy', tone: 'accent', why: 'It could do more, or less, than its order said.', items: gate.amendments },
    { id: 'open', title: 'Held and undecided', tone: 'warn', why: 'It asked for these and got no answer; its work may lack something.', items: gate.open },
    { id: 'denied', title: 'Refused', tone: 'warn', why: 'It asked for these and did without.', items: gate.denied },
    { id: 'bounds', title: 'Bounds that were reached', tone: 'warn', why: 'It may have been cut short.', items: gate.bounds },
  ];
  return parts.filter((part) => part.items.length > 0);
}

/** How far the base branch has moved, as a sentence. */
export function movedWords(moved: number, base: string): string {
  return moved === 0
    ? `Builds on ${base} as it is now.`
    : `${base} has ${count(moved, 'commit')} that this run does not build on.`;
}

export function hasPassed(check: CheckResult): boolean {
  return check.result?.result === 'succeeded';
}

/** A check that ran and did not pass, or that did not run: neither is a pass. */
export function notPassed(checks: readonly CheckResult[]): CheckResult[] {
  return checks.filter((check) => !hasPassed(check));
}

/** One word for how a check ended, with its colour. */
export function checkWord(result: StepResult | null): { word: string; tone: Tone } {
  if (result === null) return { word: 'Not run', tone: 'warn' };
  switch (result.result) {
    case 'succeeded': return { word: 'Passed', tone: 'good' };
    case 'exited': return { word: `Failed with code ${String(result.code)}`, tone: 'bad' };
    case 'signalled': return { word: `Ended by signal ${String(result.signal)}`, tone: 'bad' };
    case 'not_started': return { word: 'Did not start', tone: 'bad' };
    case 'stopped': return { word: 'Stopped', tone: 'bad' };
    case 'reported': return { word: 'Did not succeed', tone: 'bad' };
    case 'skipped': return { word: 'Skipped', tone: 'warn' };
    default: return unknownWord(result);
  }
}

function unknownWord(_: never): { word: string; tone: Tone } {
  return { word: 'Ended in a way this window does not know', tone: 'warn' };
}

/** Where an entry of the merge queue stands, as a sentence; `before` is how many are before it. */
export function queueWords(entry: MergeEntry, before: number): string {
  switch (entry.standing) {
    case 'waiting': return before > 0 ? `In the merge queue, ${count(before, 'run')} before it.` : 'In the merge queue, next.';
    case 'working': return 'The merge queue syncs, checks and merges it now.';
    case 'merged': return 'The merge queue merged it.';
    case 'returned': return `The merge queue gave it back: ${entry.reason}.`;
    default: return unknownStanding(entry);
  }
}

function unknownStanding(_: never): string {
  return 'In the merge queue, in a way this window does not know.';
}

export function isUnderWay(entry: MergeEntry | null): boolean {
  return entry?.standing === 'waiting' || entry?.standing === 'working';
}
