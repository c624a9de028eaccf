import type { FeedRow } from './row';

/** A range of events that was dropped, and the event that says so. It is one row. */
export interface Gap {
  from: number;
  to: number;
  row: FeedRow;
}

/**
 * Where events stand in the unfiltered list. Numbers are dense, so the row of an event is its number,
 * less what the gaps before it fold away: a gap is one row however much it covers. Gaps become known
 * as pages that hold them arrive; whoever keeps a place keeps it by number, never by row.
 */
export class Axis {
  private gaps: Gap[] = [];
  /** Row of each gap. */
  private rows: number[] = [];
  /** Rows folded away before each gap, and, last, in all. */
  private folded: number[] = [0];

  /** Rows of a run whose newest event is `end`. */
  count(end: number): number {
    return Math.max(0, end - (this.folded[this.gaps.length] ?? 0));
  }

  /** Row of an event; of its gap, when it was dropped. */
  rowOf(seq: number): number {
    const before = lastWhere(this.gaps, (gap) => gap.from < seq);
    const gap = this.gaps[before];
    if (gap === undefined) return seq - 1;
    if (seq <= gap.to) return this.rows[before] ?? 0;
    return seq - 1 - (this.folded[before + 1] ?? 0);
  }

  /** Number of the event in a row; the first of the range, where the row is a gap. */
  seqOf(row: number): number {
    const before = lastWhere(this.rows, (at) => at < row);
    return row + 1 + (this.folded[before + 1] ?? 0);
  }

  /** The gap that covers a number. */
  gapAt(seq: number): Gap | null {
    const gap = this.gaps[lastWhere(this.gaps, (one) => one.from <= seq)];
    return gap !== undefined && seq <= gap.to ? gap : null;
  }

  /** Takes gaps in; those that they cover or touch upon give way. True when something moved. */
  add(found: readonly Gap[]): boolean {
    const news = found.filter((gap) => {
      const known = this.gapAt(gap.from);
      return known === null || known.from !== gap.from || known.to < gap.to;
    });
    if (news.length === 0) return false;
    const kept = this.gaps.filter(
      (old) => !news.some((gap) => gap.from <= old.to && old.from <= gap.to),
    );
    this.gaps = [...kept, ...news].sort((a, b) => a.from - b.from);
    this.rows = [];
    this.folded = [0];
    let folded = 0;
    for (const gap of this.gaps) {
      this.rows.push(gap.from - 1 - folded);
      folded += gap.to - gap.from;
      this.folded.push(folded);
    }
    return true;
  }
}

/** Index of the last element that meets a condition which holds for a beginning of the list; else -1. */
export function lastWhere<T>(sorted: readonly T[], holds: (item: T) => boolean): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    const item = sorted[middle];
    if (item !== undefined && holds(item)) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
