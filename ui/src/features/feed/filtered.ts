import type { EventFilter, Failure } from '@/ipc/bindings';
import { lastWhere } from './axis';
import { lastSeqOf, rowOf } from './row';
import type { FeedRow } from './row';
import { PAGE } from './source';
import type { Answer, Ask, Fetch, RowSource, Tail } from './source';

/** Rows that are kept; beyond it the end that is further from view goes, and is asked for again. */
export const MOST_ROWS_KEPT = 16 * PAGE;
/** How near to an end of what is here the next page is asked for. */
const NEAR = 128;

/** The events of a run that a filter lets through: a stretch of them, which moves with the view. */
export class FilteredRows implements RowSource {
  failure: Failure | null = null;
  private rows: FeedRow[] = [];
  private hasOlder = true;
  /** Everything from here to the stretch was looked at. */
  private before: number;
  /** Everything after the stretch and up to here was looked at. */
  private looked: number;
  private older = false;
  private newer = false;
  private hasBegun = false;
  /** The end at which nothing newer could be had. */
  private barrenAt = -1;

  constructor(
    private readonly fetch: Fetch,
    private readonly filter: EventFilter,
    private end: number,
    /** The event to begin at; the newest when absent. */
    start: number | null,
    private readonly changed: () => void,
    private readonly mostRows = MOST_ROWS_KEPT,
  ) {
    this.looked = start ?? end;
    this.before = this.looked + 1;
  }

  get count(): number {
    return this.rows.length;
  }

  get newest(): number {
    return this.end;
  }

  get isLooking(): boolean {
    return this.older || (this.hasOlder && this.rows.length === 0);
  }

  at(index: number): FeedRow | null {
    return this.rows[index] ?? null;
  }

  seqAt(index: number): number {
    return this.rows[Math.min(index, this.rows.length - 1)]?.seq ?? 0;
  }

  indexOf(seq: number): number {
    return Math.max(0, lastWhere(this.rows, (row) => row.seq <= seq));
  }

  grow(end: number): void {
    if (end <= this.end) return;
    this.end = end;
    this.changed();
  }

  want(first: number, end: number): void {
    if (this.failure !== null) return;
    if (this.hasOlder && first < NEAR) void this.loadOlder();
    const isAtNewest = this.hasBegun && end > this.rows.length - NEAR;
    if (isAtNewest && this.looked < this.end && this.barrenAt !== this.end) void this.loadNewer(0);
  }

  async tail(waitMs: number): Promise<Tail> {
    if (!this.hasBegun) {
      await this.loadOlder();
      return this.failure === null ? 'more' : 'failed';
    }
    return this.loadNewer(waitMs);
  }

  retry(): void {
    this.failure = null;
    this.changed();
  }

  private async loadOlder(): Promise<void> {
    if (this.older) return;
    this.older = true;
    const before = this.before;
    const answer = await this.ask({ after: 0, before, wait_ms: 0 });
    this.older = false;
    this.hasBegun = true;
    if (answer === null) return;
    // The stretch moved on meanwhile: what came is not what is before it.
    if (this.before !== before) return;
    const found = answer.events.map(rowOf);
    // A page may find nothing and still be a step back; one that is no step is the end.
    this.hasOlder = answer.has_older && answer.cursor < before;
    this.before = Math.min(before, answer.cursor);
    this.rows = [...found, ...this.rows];
    const over = this.rows.length - this.mostRows;
    if (over > 0) {
      this.rows.length -= over;
      this.looked = this.newestSeq();
    }
    this.changed();
  }

  private async loadNewer(waitMs: number): Promise<Tail> {
    if (this.newer) return 'caught_up';
    this.newer = true;
    const after = this.looked;
    const answer = await this.ask({ after, before: null, wait_ms: waitMs });
    this.newer = false;
    if (answer === null) return 'failed';
    // The stretch was cut or moved meanwhile: what came does not follow it.
    if (this.looked !== after) return 'more';
    const newest = this.newestSeq();
    this.rows = [...this.rows, ...answer.events.filter((event) => event.seq > newest).map(rowOf)];
    this.looked = Math.max(after, answer.cursor);
    if (this.looked === after) this.barrenAt = this.end;
    const over = this.rows.length - this.mostRows;
    if (over > 0) {
      this.rows.splice(0, over);
      this.before = this.rows[0]?.seq ?? this.before;
      this.hasOlder = true;
    }
    this.changed();
    if (answer.ended && (answer.events.length === 0 || this.looked >= this.end)) return 'ended';
    return answer.events.length >= PAGE || this.looked < this.end ? 'more' : 'caught_up';
  }

  private newestSeq(): number {
    const newest = this.rows.at(-1);
    return newest === undefined ? 0 : lastSeqOf(newest.event);
  }

  private async ask(what: Omit<Ask, 'limit' | 'filter'>): Promise<Answer | null> {
    const answer = await this.fetch({ ...what, limit: PAGE, filter: this.filter });
    if (answer.ok) return answer.value;
    this.failure = answer.failure;
    this.changed();
    return null;
  }
}
