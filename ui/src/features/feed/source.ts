import type { Event, EventFilter, Failure } from '@/ipc/bindings';
import type { Result } from '@/ipc/call';
import type { FeedRow } from './row';

/** Events asked for at one time: the most that the engine gives. */
export const PAGE = 512;

/** A page that is asked for: what comes after a number, or what came before one. */
export interface Ask {
  after: number;
  before: number | null;
  limit: number;
  wait_ms: number;
  filter: EventFilter | null;
}

/** What is used of an answer. */
export interface Answer {
  events: Event[];
  cursor: number;
  ended: boolean;
  has_older: boolean;
}

export type Fetch = (ask: Ask) => Promise<Result<Answer>>;

/** The rows behind the list. Asking for a row that is not here yet answers null; `want` brings it. */
export interface RowSource {
  readonly count: number;
  /** The run's newest event, as far as it is known here. */
  readonly newest: number;
  /** True while it is not known whether there is anything to show. */
  readonly isLooking: boolean;
  /** Why nothing more arrives, until `retry`. */
  readonly failure: Failure | null;
  at(index: number): FeedRow | null;
  /** The event that a row shows. */
  seqAt(index: number): number;
  /** The row of an event, or the nearest to it. */
  indexOf(seq: number): number;
  /** The rows that are looked at, from a first one to before an end. */
  want(first: number, end: number): void;
  /**
   * The run's newest event is this one, says whoever knows. Where the end is followed, its rows come with `tail`:
   * a row that is only known to be there would be drawn empty, asked for twice, and drawn again.
   */
  grow(end: number, isFollowed: boolean): void;
  /** Goes on with what comes after the newest row; waits for news. True when the run said its last. */
  tail(waitMs: number): Promise<Tail>;
  retry(): void;
}

export type Tail = 'more' | 'caught_up' | 'ended' | 'failed';
