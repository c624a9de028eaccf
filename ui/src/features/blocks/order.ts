// Where cards stand in a list. A card keeps its place for as long as the list is shown, also after it
// was decided; one that arrives comes last. So nothing that an operator points at moves.

import type { BlockId, BlockView } from '@/ipc/bindings';

/** Oldest first; blocks of one moment by id, so that the order is the same everywhere. */
export function oldestFirst(a: BlockView, b: BlockView): number {
  return a.first_at.localeCompare(b.first_at) || a.id.localeCompare(b.id);
}

/** The places that were shown, with what arrived behind them. */
export function keepPlaces(shown: readonly BlockId[], now: Iterable<BlockView>): BlockId[] {
  const known = new Set(shown);
  const arrived = [...now].filter((view) => !known.has(view.id)).sort(oldestFirst);
  return [...shown, ...arrived.map((view) => view.id)];
}

/** The places of those that are still open, which is what the operator asks for by clearing. */
export function withoutDecided(shown: readonly BlockId[], isOpen: (id: BlockId) => boolean): BlockId[] {
  return shown.filter(isOpen);
}

/** The next open one behind `from`, around the end; the first when `from` is nowhere. */
export function nextOpen(
  shown: readonly BlockId[],
  from: BlockId | null,
  isOpen: (id: BlockId) => boolean,
): BlockId | null {
  const start = from === null ? -1 : shown.indexOf(from);
  for (let step = 1; step <= shown.length; step += 1) {
    const id = shown[(start + step) % shown.length];
    if (id !== undefined && isOpen(id)) return id;
  }
  return null;
}

/** Where a card was drawn: in the list, and from the top of what is in sight. */
export interface Place {
  readonly start: number;
  readonly top: number;
}

/** Pixels that count as no move: less than any button is high. */
const STILL_PX = 4;

/** Where the cards are now. */
export function placesOf(rows: Iterable<{ id: BlockId; start: number }>, scrolled: number): Map<BlockId, Place> {
  return new Map([...rows].map(({ id, start }) => [id, { start, top: start - scrolled }]));
}

/** The cards that something else in the list has pushed, rather than the operator's own scrolling. */
export function pushed(before: ReadonlyMap<BlockId, Place>, now: ReadonlyMap<BlockId, Place>): BlockId[] {
  return [...now].flatMap(([id, { start, top }]) => {
    const was = before.get(id);
    return was !== undefined && was.start !== start && Math.abs(was.top - top) > STILL_PX ? [id] : [];
  });
}
