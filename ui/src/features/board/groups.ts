/** What the board shows and in which order. Pure. */
import type { OrderView, RunId, RunView } from '@/ipc/bindings';
import { GROUPS, runGroup, runWord } from '@/lib/state';
import type { Group } from '@/lib/state';
import { exact } from '@/lib/time';

export type BoardRow = { kind: 'run'; id: string; run: RunView } | { kind: 'order'; id: string; order: OrderView };

export interface BoardGroup {
  group: Group;
  rows: BoardRow[];
  /** How many rows there are of each word, where a group holds several: Merged, Failed... */
  words: { word: string; count: number }[];
}

export interface BoardInput {
  runs: ReadonlyMap<RunId, RunView>;
  runOrder: readonly RunId[];
  orders: readonly OrderView[];
  /** Only what this text occurs in: title, repository, branch, id, word of the state. */
  find: string;
}

function fits(find: string, parts: readonly string[]): boolean {
  return find === '' || parts.some((part) => part.toLowerCase().includes(find));
}

function words(rows: readonly BoardRow[]): { word: string; count: number }[] {
  const counts = new Map<string, number>();
  for (const row of rows) {
    if (row.kind !== 'run') continue;
    const { word } = runWord(row.run);
    counts.set(word, (counts.get(word) ?? 0) + 1);
  }
  return [...counts].map(([word, count]) => ({ word, count }));
}

/** Runs and waiting orders by group, every group in its place, empty ones included. */
export function boardGroups(input: BoardInput): BoardGroup[] {
  const find = input.find.trim().toLowerCase();
  const rows = new Map<Group, BoardRow[]>(GROUPS.map((group) => [group, []]));
  for (const id of input.runOrder) {
    const run = input.runs.get(id);
    if (run && fits(find, [run.title, run.repo, run.branch, run.id, runWord(run).word])) rows.get(runGroup(run))?.push({ kind: 'run', id, run });
  }
  for (const order of input.orders) {
    if (order.state !== 'queued' || !fits(find, [order.title, order.repo, order.id])) continue;
    rows.get('queued')?.push({ kind: 'order', id: order.id, order });
  }
  return GROUPS.map((group) => {
    const of = rows.get(group) ?? [];
    // Who has waited longest comes first where somebody waits.
    if (group === 'needs' || group === 'review') of.reverse();
    return { group, rows: of, words: group === 'done' || group === 'running' || group === 'review' ? words(of) : [] };
  });
}

export interface RowPlace {
  name: 'run' | 'order';
  params: { id: string; tab?: string };
}

/** Where a row leads: a run that needs the operator opens at its blocks. */
export function placeOf(row: BoardRow): RowPlace {
  if (row.kind === 'order') return { name: 'order', params: { id: row.id } };
  return { name: 'run', params: runGroup(row.run) === 'needs' ? { id: row.id, tab: 'blocks' } : { id: row.id } };
}

/** Orders that a waiting order waits for, to link to. */
export function waitsOn(order: OrderView): string[] {
  const { wait } = order;
  switch (wait?.wait) {
    case 'dependency':
      return wait.on.map((unmet) => unmet.order);
    case 'cycle':
      return wait.members.filter((member) => member !== order.id);
    case 'scope':
      return typeof wait.held_by === 'string' ? [wait.held_by] : [];
    default:
      return [];
  }
}

/** Why a waiting order waits, as a sentence. */
export function waitWords(order: OrderView): string {
  if (order.wait) return order.wait.words;
  return order.next_slot === null ? 'Next to start' : `Comes next ${exact(order.next_slot)}`;
}

/** One line of the virtual list: a group's head, a row, or the end of what is loaded. */
export type Line =
  | { line: 'head'; key: string; group: BoardGroup }
  | { line: 'row'; key: string; row: BoardRow }
  | { line: 'older'; key: string; older: number };

/** Lines of some groups; empty groups are left out. */
export function linesOf(groups: readonly BoardGroup[], older: number): { group: Group; lines: Line[] }[] {
  return groups.flatMap((group) => {
    const more = group.group === 'done' && older > 0;
    if (group.rows.length === 0 && !more) return [];
    const lines: Line[] = [
      { line: 'head', key: `head:${group.group}`, group },
      ...group.rows.map((row): Line => ({ line: 'row', key: `${row.kind}:${row.id}`, row })),
    ];
    if (more) lines.push({ line: 'older', key: 'older', older });
    return [{ group: group.group, lines }];
  });
}
