// The rows of a file's diff as they are shown, side by side or one below the other, with what was said about
// them below their line.

import type { Comment, Anchor } from './comments';
import type { DiffLine, Patch, Side } from './patch';

export type DiffMode = 'split' | 'unified';

/** Part of a line that differs from its partner on the other side. */
export type Mark = readonly [from: number, to: number];

export interface Cell {
  readonly line: DiffLine;
  readonly side: Side;
  readonly mark: Mark | null;
}

export type Row =
  | { readonly kind: 'hunk'; readonly key: string; readonly header: string }
  | { readonly kind: 'one'; readonly key: string; readonly cell: Cell }
  | { readonly kind: 'two'; readonly key: string; readonly left: Cell | null; readonly right: Cell | null }
  | { readonly kind: 'comment'; readonly key: string; readonly comment: Comment }
  | { readonly kind: 'editor'; readonly key: string; readonly anchor: Anchor };

/** The middle of two lines that begin and end alike; absent when they are too different for it to help. */
export function differing(before: string, after: string): { before: Mark; after: Mark } | null {
  const most = Math.min(before.length, after.length);
  let head = 0;
  while (head < most && before[head] === after[head]) head += 1;
  let tail = 0;
  while (tail < most - head && before[before.length - 1 - tail] === after[after.length - 1 - tail]) tail += 1;
  if (before === after || (head + tail) * 3 < most) return null;
  return { before: [head, before.length - tail], after: [head, after.length - tail] };
}

/** Runs of changed lines with their partners: the first removed one with the first added one, and so on. */
function pairs(lines: readonly DiffLine[]): { removed: DiffLine[]; added: DiffLine[]; context: DiffLine | null }[] {
  const groups: { removed: DiffLine[]; added: DiffLine[]; context: DiffLine | null }[] = [];
  let open: { removed: DiffLine[]; added: DiffLine[]; context: null } | null = null;
  for (const line of lines) {
    if (line.kind === 'context') {
      open = null;
      groups.push({ removed: [], added: [], context: line });
      continue;
    }
    if (!open || (line.kind === 'removed' && open.added.length > 0)) {
      open = { removed: [], added: [], context: null };
      groups.push(open);
    }
    open[line.kind].push(line);
  }
  return groups;
}

function numberOn(line: DiffLine, side: Side): number | null {
  return side === 'old' ? line.old : line.new;
}

/** Where a comment on this cell belongs. */
export function anchorOf(path: string, cell: Cell): Anchor {
  return { path, side: cell.side, line: numberOn(cell.line, cell.side), quote: cell.line.text.slice(0, 200) };
}

function isAt(anchor: Anchor, cell: Cell | null): boolean {
  return cell !== null && anchor.line !== null && anchor.side === cell.side && anchor.line === numberOn(cell.line, cell.side);
}

/** Rows of a patch. */
export function rowsOf(patch: Patch, mode: DiffMode, said: readonly Comment[], editing: Anchor | null): Row[] {
  const rows: Row[] = [];
  const below = (cells: readonly (Cell | null)[]): void => {
    for (const comment of said) {
      if (cells.some((cell) => isAt(comment.anchor, cell))) rows.push({ kind: 'comment', key: `c${comment.id}`, comment });
    }
    if (editing && cells.some((cell) => isAt(editing, cell))) rows.push({ kind: 'editor', key: 'editor', anchor: editing });
  };
  const one = (cell: Cell): void => {
    rows.push({ kind: 'one', key: `${cell.side}${String(numberOn(cell.line, cell.side))}`, cell });
    below([cell]);
  };
  const two = (left: Cell | null, right: Cell | null): void => {
    rows.push({ kind: 'two', key: `${String(left?.line.old ?? '')}:${String(right?.line.new ?? '')}`, left, right });
    below([left, right]);
  };
  for (const [at, hunk] of patch.hunks.entries()) {
    rows.push({ kind: 'hunk', key: `h${String(at)}`, header: hunk.header });
    for (const group of pairs(hunk.lines)) {
      if (group.context) {
        const right: Cell = { line: group.context, side: 'new', mark: null };
        if (mode === 'unified') one(right);
        else two({ line: group.context, side: 'old', mark: null }, right);
        continue;
      }
      const marks = group.removed.map((line, index) => differing(line.text, group.added[index]?.text ?? ''));
      const removed = group.removed.map((line, index): Cell => ({ line, side: 'old', mark: marks[index]?.before ?? null }));
      const added = group.added.map((line, index): Cell => ({ line, side: 'new', mark: marks[index]?.after ?? null }));
      if (mode === 'unified') for (const cell of [...removed, ...added]) one(cell);
      else for (let index = 0; index < Math.max(removed.length, added.length); index += 1) two(removed[index] ?? null, added[index] ?? null);
    }
  }
  return rows;
}
