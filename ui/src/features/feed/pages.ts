import type { Event, Failure } from '@/ipc/bindings';
import { Axis } from './axis';
import type { Gap } from './axis';
import { lastSeqOf, rowOf, weightOf } from './row';
import type { FeedRow } from './row';
import { PAGE } from './source';
import type { Fetch, RowSource, Tail } from './source';

/** Pages that are kept. */
export const MOST_PAGES = 64;
/** Requests under way at one time, beside the one that follows the end. */
const MOST_FLIGHTS = 2;
/** Characters that an answer should have at most, where events are long; and events that it has all the same. */
const HEAVY = 1_000_000;
const LEAST = 64;
/** Rows that are asked for beyond those that are looked at, in the direction of the last move. */
const AHEAD = 96;
/** Rows around those that are looked at that are filled in where part of their page is here. */
const AROUND = 64;
/**
 * Following, what lies further back than this from the end is left out until somebody looks there, and no more than
 * this is asked for at one time: a little more than the highest window shows. An answer is read between two frames.
 */
const WINDOW = 128;

/**
 * All events of a run, by number, in pages that come and go. Nothing here grows with the run's history:
 * a page is asked for when somebody looks at it, and the ones longest unseen are dropped.
 */
export class DenseRows implements RowSource {
  failure: Failure | null = null;
  readonly isLooking = false;
  private readonly axis = new Axis();
  /** Characters of an event, on average, in the last answer. */
  private weight = 0;
  /** Page number to its rows; in the order of use, the least used first. */
  private readonly pages = new Map<number, (FeedRow | undefined)[]>();
  private readonly flights = new Set<number>();
  /** Pages whose answer did not bring what was missing, with the end known then. */
  private readonly barren = new Map<number, number>();
  private wanted: number[] = [];
  private shown: [number, number] = [1, 0];
  private lastFirst = 0;
  /** Everything up to here was asked for by `tail`, or skipped by it. */
  private followed = 0;
  /** The newest event that has a row. */
  private end: number;

  constructor(
    private readonly fetch: Fetch,
    /** The newest event that was told of. */
    private told: number,
    private readonly changed: () => void,
    private readonly mostPages = MOST_PAGES,
  ) {
    this.end = told;
  }

  get count(): number {
    return this.axis.count(this.end);
  }

  get newest(): number {
    return this.told;
  }

  at(index: number): FeedRow | null {
    const seq = this.axis.seqOf(index);
    const gap = this.axis.gapAt(seq);
    if (gap !== null) return gap.row;
    return this.pages.get(pageOf(seq))?.[slotOf(seq)] ?? null;
  }

  seqAt(index: number): number {
    return this.axis.seqOf(index);
  }

  indexOf(seq: number): number {
    return Math.min(Math.max(0, this.axis.rowOf(seq)), Math.max(0, this.count - 1));
  }

  grow(end: number, isFollowed: boolean): void {
    this.told = Math.max(this.told, end);
    if (isFollowed || this.told === this.end) return;
    this.end = this.told;
    this.changed();
  }

  want(first: number, end: number): void {
    const backwards = first < this.lastFirst;
    this.lastFirst = first;
    const last = Math.min(end, this.count) - 1;
    const from = Math.max(0, first);
    this.shown = last < from ? [1, 0] : [this.axis.seqOf(from), this.axis.seqOf(last)];
    const wanted = new Set<number>();
    for (let row = from; row <= last; row += 1) this.wantRow(row, wanted);
    const ahead = backwards ? Math.max(0, from - AHEAD) : Math.min(this.count - 1, last + AHEAD);
    if (this.count > 0) this.wantRow(ahead, wanted);
    this.wanted = [...wanted];
    for (const page of this.wanted) this.touch(page);
    this.pump();
  }

  async tail(waitMs: number): Promise<Tail> {
    const after = Math.max(this.followed, this.told - WINDOW, 0);
    const limit = Math.min(WINDOW, this.most());
    const answer = await this.fetch({ after, before: null, limit, wait_ms: waitMs, filter: null });
    if (!answer.ok) {
      this.fail(answer.failure);
      return 'failed';
    }
    this.put(answer.value.events);
    this.followed = Math.max(this.followed, after, answer.value.cursor);
    if (answer.value.events.length > 0) this.changed();
    const { events, ended } = answer.value;
    if (ended && (events.length === 0 || this.followed >= this.told)) return 'ended';
    return this.followed < this.told ? 'more' : 'caught_up';
  }

  retry(): void {
    this.failure = null;
    this.barren.clear();
    this.changed();
    this.pump();
  }

  /** Pages that are kept now. */
  get kept(): number {
    return this.pages.size;
  }

  private wantRow(row: number, wanted: Set<number>): void {
    const seq = this.axis.seqOf(row);
    if (this.axis.gapAt(seq) === null) wanted.add(pageOf(seq));
  }

  private pump(): void {
    for (const page of this.wanted) {
      if (this.failure !== null || this.flights.size >= MOST_FLIGHTS) return;
      if (this.flights.has(page) || this.barren.get(page) === this.end) continue;
      const missing = this.firstMissing(page);
      if (missing !== null) void this.load(page, missing);
    }
  }

  /** The first event to bring of a page: one near the view, else any where nothing of the page is here. */
  private firstMissing(page: number): number | null {
    const start = page * PAGE + 1;
    const last = Math.min(start + PAGE - 1, this.end);
    const [shownFrom, shownTo] = this.shown;
    const near = this.missingIn(page, Math.max(start, shownFrom - AROUND), Math.min(last, shownTo + AROUND));
    return near ?? (this.pages.has(page) ? null : this.missingIn(page, start, last));
  }

  private missingIn(page: number, from: number, to: number): number | null {
    const rows = this.pages.get(page);
    for (let seq = from; seq <= to; seq += 1) {
      const gap = this.axis.gapAt(seq);
      if (gap !== null) seq = gap.to;
      else if (rows?.[slotOf(seq)] === undefined) return seq;
    }
    return null;
  }

  private async load(page: number, missing: number): Promise<void> {
    this.flights.add(page);
    // All of a hole, not only the part of it near the view, unless its events are heavy.
    const start = page * PAGE + 1;
    const rows = this.pages.get(page);
    const most = this.most();
    const back = most < PAGE ? most >> 2 : PAGE;
    let from = missing;
    while (from > start && missing - from < back && rows?.[slotOf(from - 1)] === undefined) from -= 1;
    const limit = Math.min(most, start + PAGE - from);
    const answer = await this.fetch({ after: from - 1, before: null, limit, wait_ms: 0, filter: null });
    this.flights.delete(page);
    if (!answer.ok) {
      this.fail(answer.failure);
      return;
    }
    this.put(answer.value.events);
    const next = this.missingIn(page, missing, missing);
    if (next === null) this.barren.delete(page);
    else this.barren.set(page, this.end);
    this.changed();
    this.pump();
  }

  /** Events to ask for at one time: fewer where they are heavy, so that no answer blocks the window. */
  private most(): number {
    return Math.min(PAGE, Math.max(LEAST, Math.floor(HEAVY / Math.max(1, this.weight))));
  }

  private put(events: readonly Event[]): void {
    if (events.length > 0) this.weight = events.reduce((sum, event) => sum + weightOf(event), 0) / events.length;
    const gaps: Gap[] = [];
    for (const event of events) {
      const last = lastSeqOf(event);
      this.end = Math.max(this.end, last);
      if (event.kind === 'gap') gaps.push({ from: event.seq, to: last, row: rowOf(event) });
      else this.page(pageOf(event.seq))[slotOf(event.seq)] = rowOf(event);
    }
    this.told = Math.max(this.told, this.end);
    if (gaps.length > 0 && this.axis.add(gaps)) this.forget(gaps);
    this.evict();
  }

  /** Drops what was kept of ranges that are gone. */
  private forget(gaps: readonly Gap[]): void {
    for (const [number, rows] of this.pages) {
      const start = number * PAGE + 1;
      for (const gap of gaps) {
        const from = Math.max(gap.from, start);
        const to = Math.min(gap.to, start + PAGE - 1);
        for (let seq = from; seq <= to; seq += 1) rows[slotOf(seq)] = undefined;
      }
    }
  }

  private page(number: number): (FeedRow | undefined)[] {
    const known = this.pages.get(number);
    if (known !== undefined) return known;
    const made = new Array<FeedRow | undefined>(PAGE).fill(undefined);
    this.pages.set(number, made);
    return made;
  }

  private touch(number: number): void {
    const rows = this.pages.get(number);
    if (rows === undefined) return;
    this.pages.delete(number);
    this.pages.set(number, rows);
  }

  private evict(): void {
    for (const number of this.pages.keys()) {
      if (this.pages.size <= this.mostPages) return;
      if (!this.wanted.includes(number)) this.pages.delete(number);
    }
  }

  private fail(failure: Failure): void {
    this.failure = failure;
    this.changed();
  }
}

function pageOf(seq: number): number {
  return Math.floor((seq - 1) / PAGE);
}

function slotOf(seq: number): number {
  return (seq - 1) % PAGE;
}
