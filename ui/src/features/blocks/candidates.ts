// Which of a card's rules is offered where: the narrowest that lasts is the button, the rest are in
// the menu, by how far they reach, wider ones apart.

import type { BlockView, Candidate, HostPattern, Rule, Scope } from '@/ipc/bindings';
import { count } from '@/lib/count';
import { visibleText } from '@/lib/text';
import { offered, raiseOf } from './bounds';

/** How far, narrowest first. */
export const SCOPES: readonly Scope[] = ['once', 'run', 'order', 'project'];

/** The rules of a card, as its menu shows them. */
export interface Grouped {
  /** The narrowest rule of each scope. */
  readonly narrow: readonly Candidate[];
  /** Rules that open more than what was attempted. */
  readonly wider: readonly Candidate[];
}

/** The narrowest rule that lasts, which is the first with scope run; else, and for a question, the first there is. */
export function primary(view: BlockView): Candidate | null {
  const rules = offered(view);
  if (view.subject.type === 'question') return rules[0] ?? null;
  return rules.find((candidate) => candidate.scope === 'run') ?? rules[0] ?? null;
}

/** The rule of this number, as long as the card has it. */
export function numbered(view: BlockView, number: number): Candidate | null {
  return view.candidates.find((candidate) => candidate.number === number) ?? null;
}

/** The first rule of each scope, and the wider ones. A higher figure opens nothing else, so none is apart. */
export function grouped(candidates: readonly Candidate[]): Grouped {
  if (candidates.every((candidate) => raiseOf(candidate.rule) !== null)) return { narrow: candidates, wider: [] };
  const narrow: Candidate[] = [];
  for (const scope of SCOPES) {
    const first = candidates.find((candidate) => candidate.scope === scope && !isWide(candidate.rule));
    if (first !== undefined) narrow.push(first);
  }
  const wider = candidates.filter((candidate) => !narrow.includes(candidate));
  return { narrow, wider };
}

function hostOf(rule: Rule): HostPattern | null {
  return 'host' in rule ? rule.host : null;
}

function isWide(rule: Rule): boolean {
  const host = hostOf(rule);
  return host !== null && (host.one_label_under !== undefined || host.any_depth_under !== undefined);
}

/** What else a rule opens, as sentences; empty when it opens only what was attempted. */
export function opensWords(candidate: Candidate): string[] {
  const lines = (candidate.opens ?? []).map(visibleText);
  if (candidate.also_opens > 0) lines.push(alsoWords(candidate.also_opens));
  return lines;
}

/** How many past events a rule would also have allowed. */
export function alsoWords(also: number): string {
  return `Would also have allowed ${count(also, 'earlier action')}`;
}

/** Why a rule asks a second time. */
export function confirmWords(candidate: Candidate): string {
  if (isWide(candidate.rule)) return 'It opens every name of a pattern, not only the one that was attempted.';
  if (candidate.scope === 'project') return 'It counts for every run in this project, now and later.';
  if (raiseOf(candidate.rule) !== null) return 'It raises the bound for more than this run.';
  if ('tool' in candidate.rule) return 'It answers every question about this tool, whatever the agent then wants to do with it.';
  if (hostOf(candidate.rule) === null) return 'It opens a whole folder, or more than files: read what it opens.';
  if (hostOf(candidate.rule)?.address !== undefined) {
    return 'It opens a bare address: whoever answers there is reached, whatever its name.';
  }
  return 'It opens more than the usual.';
}
