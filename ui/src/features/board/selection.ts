/** Which rows of the board are picked, and which one is current. Pure. */
import type { BoardGroup, BoardRow } from './groups';

/** "run:<id>" or "order:<id>". */
export type RowKey = string;

export function keyOf(row: BoardRow): RowKey {
  return `${row.kind}:${row.id}`;
}

/** Every row in the order in which it is shown. */
export function rowsInOrder(groups: readonly BoardGroup[]): BoardRow[] {
  return groups.flatMap((group) => group.rows);
}

/** Picks or drops a row; with `from`, everything between the two as well. */
export function pick(picked: ReadonlySet<RowKey>, keys: readonly RowKey[], key: RowKey, on: boolean, from: RowKey | null): Set<RowKey> {
  const next = new Set(picked);
  const start = from === null ? -1 : keys.indexOf(from);
  const end = keys.indexOf(key);
  const range = start < 0 || end < 0 ? [key] : keys.slice(Math.min(start, end), Math.max(start, end) + 1);
  for (const each of range) {
    if (on) next.add(each);
    else next.delete(each);
  }
  return next;
}

/** Only the picked rows that are still there. */
export function stillThere(picked: ReadonlySet<RowKey>, keys: readonly RowKey[]): Set<RowKey> {
  const there = new Set(keys);
  return new Set([...picked].filter((key) => there.has(key)));
}

/** The row `by` rows from the current one; the first when none is current or it has gone. */
export function step(keys: readonly RowKey[], current: RowKey | null, by: number): RowKey | null {
  if (keys.length === 0) return null;
  const at = current === null ? -1 : keys.indexOf(current);
  if (at < 0) return keys[by > 0 ? 0 : keys.length - 1] ?? null;
  return keys[Math.min(keys.length - 1, Math.max(0, at + by))] ?? null;
}
