// Bounds and their figures in words: the same as the engine and the command line use, so that a card, its
// rules and the feed say one figure once.

import type { Block, BlockView, BoundKind, BoundRule, Breach, Candidate, Rule, Scope, Subject } from '@/ipc/bindings';
import { boundFault, boundValue } from '@/lib/quantity';
import { oneLine } from '@/lib/text';

const NAMES: Readonly<Record<BoundKind, string>> = {
  wall: 'wall time',
  cpu: 'processor time',
  memory: 'memory',
  processes: 'processes',
  disk: 'disk',
  output: 'output',
  open_files: 'open files',
  tokens: 'tokens',
  cost: 'cost',
  turns: 'turns',
};

/** What is bounded. One that this window does not know is named as it came. */
export function boundName(bound: string): string {
  return Object.hasOwn(NAMES, bound) ? NAMES[bound as BoundKind] : oneLine(bound, 40).replaceAll('_', ' ');
}

/** Whether a run is paused at it and can go on in its place; else the kernel refuses more and the run goes on. */
export function pausesAt(bound: BoundKind): boolean {
  return bound !== 'processes' && bound !== 'open_files';
}

/** The bound that a block is about; nothing when it is about an action. */
export function boundOf(subject: Subject): BoundKind | null {
  return subject.type === 'bound' ? subject.bound : null;
}

/** The bound at which a run is paused for as long as this block is open; nothing when it is not. */
export function pausedAt(block: Block): BoundKind | null {
  const bound = boundOf(block.subject);
  return block.state === 'open' && bound !== null && pausesAt(bound) ? bound : null;
}

/** True when refusing it stops the run, which is asked about first. */
export function stopsRun(view: BlockView): boolean {
  return pausedAt(view) !== null;
}

/** A figure of a bound, in words: "1.5 GiB", "1 hour 30 minutes", "512 processes". */
export function figureWords(bound: BoundKind, figure: number): string {
  switch (bound) {
    case 'wall':
      return durationWords(Math.ceil(figure / 1000));
    case 'memory':
    case 'output':
    case 'disk':
      return sizeWords(figure);
    case 'cpu':
      return counted(figure / 1000, 'processor');
    case 'processes':
      return counted(figure, 'process', 'processes');
    case 'open_files':
      return counted(figure, 'open file');
    case 'tokens':
      return counted(figure, 'token');
    case 'cost':
      return costWords(figure);
    case 'turns':
      return counted(figure, 'turn');
    default:
      return String(bound satisfies never);
  }
}

/** Millionths of a dollar in words: `$2.50`, `$0.0125`. */
export function costWords(micros: number): string {
  const [whole = '0', fraction = ''] = (micros / 1e6).toFixed(6).split('.');
  return `$${whole}.${fraction.replace(/0+$/, '').padEnd(2, '0')}`;
}

function counted(n: number, one: string, many = `${one}s`): string {
  return `${String(n)} ${n === 1 ? one : many}`;
}

const DURATIONS = [
  [86_400, 'day'],
  [3_600, 'hour'],
  [60, 'minute'],
  [1, 'second'],
] as const;

function durationWords(seconds: number): string {
  const parts: string[] = [];
  let rest = seconds;
  for (const [factor, word] of DURATIONS) {
    const n = Math.floor(rest / factor);
    rest -= n * factor;
    if (n > 0) parts.push(counted(n, word));
  }
  return parts.join(' ') || '0 seconds';
}

const SIZES = [
  [2 ** 40, 'TiB'],
  [2 ** 30, 'GiB'],
  [2 ** 20, 'MiB'],
  [2 ** 10, 'KiB'],
] as const;

/** To one place, rounded down: what is below a bound never reads as if it were at it. */
function sizeWords(bytes: number): string {
  for (const [factor, word] of SIZES) {
    if (bytes >= factor) return `${String(Math.floor((bytes * 10) / factor) / 10)} ${word}`;
  }
  return counted(bytes, 'byte');
}

/** What was reached: "4.2 GiB of 4 GiB"; for a clock that stops at its bound, only the bound. */
export function breachWords({ bound, limit, seen }: Breach): string {
  const most = figureWords(bound, limit);
  if (bound === 'wall') return most;
  const used = bound === 'processes' || bound === 'open_files' ? String(seen) : figureWords(bound, seen);
  return `${used} of ${most}`;
}

/** By how much it was over its bound; nothing where it was not. */
export function overWords({ bound, limit, seen }: Breach): string | null {
  const over = seen - limit;
  // Below a second, or where more is refused, there is nothing to tell.
  if (over <= 0 || (bound === 'wall' && over < 1000)) return null;
  return figureWords(bound, over);
}

/** What happened at the bound and what follows, a line each. */
export function boundLines(block: Block): string[] {
  const bound = boundOf(block.subject);
  if (bound === null) return [];
  if (!pausesAt(bound)) return ['More than that is refused to the run, which goes on.'];
  const over = block.breach ? overWords(block.breach) : null;
  const lines: string[] = [];
  if (over !== null) lines.push(`That is ${over} over its bound, as measured once the run was paused.`);
  if (block.state === 'open') {
    lines.push('The run is paused until you decide. Raised, it goes on where it was. Time it is paused does not count as wall time.');
  }
  return lines;
}

/** A rule that raises a bound. */
export function raiseOf(rule: Rule): BoundRule | null {
  return 'bound' in rule ? rule : null;
}

/** "Raise memory to 6 GiB for this run", to a figure of the operator's own where there is one; nothing for a rule of another kind. */
export function raiseWords(candidate: Candidate, own: string | null = null): string | null {
  const rule = raiseOf(candidate.rule);
  if (rule === null) return null;
  const limit = (own === null ? null : ownFigure(rule.bound, own)) ?? rule.limit;
  return `Raise ${boundName(rule.bound)} to ${figureWords(rule.bound, limit)} ${reachWords(candidate.scope)}`;
}

/** A figure as it is typed, in the unit of a breach; nothing when it is blank or none. */
export function ownFigure(bound: BoundKind, text: string): number | null {
  const value = boundValue(bound, text);
  return value === null ? null : bound === 'wall' ? value * 1000 : value;
}

/** What is wrong with a figure of the operator's own, as a sentence; nothing when it raises the bound, or is blank. */
export function ownFault(block: Block, text: string): string | null {
  const { breach } = block;
  if (!breach) return null;
  const fault = boundFault(breach.bound, text);
  const figure = ownFigure(breach.bound, text);
  if (fault !== null || figure === null) return fault;
  if (figure <= breach.limit) return `The bound is ${figureWords(breach.bound, breach.limit)} already. Write more than that.`;
  if (figure <= breach.seen) return `It has used ${figureWords(breach.bound, breach.seen)} already. Write more than that.`;
  return null;
}

function reachWords(scope: Scope): string {
  switch (scope) {
    case 'once':
    case 'run':
      return 'for this run';
    case 'order':
      return 'for every run of this work order';
    case 'project':
      return 'for every run in this project';
    default:
      return scope satisfies never;
  }
}

/** The rules that help now: for a run that does not wait at its bound any more, those of later runs. */
export function offered(view: BlockView): readonly Candidate[] {
  if (view.subject.type !== 'bound' || view.state === 'open') return view.candidates;
  return view.candidates.filter((candidate) => candidate.scope === 'order' || candidate.scope === 'project');
}

/** A row of the board: "paused at its memory bound". */
export function pausedWords(bound: BoundKind): string {
  return `paused at its ${boundName(bound)} bound`;
}

/** Runs that are paused at a bound, and at which, in words. */
export function pausedRuns(blocks: Iterable<BlockView>, runOf: (id: string) => string): Map<string, string> {
  const paused = new Map<string, string>();
  for (const block of blocks) {
    const bound = pausedAt(block);
    if (bound !== null) paused.set(runOf(block.id), pausedWords(bound));
  }
  return paused;
}
