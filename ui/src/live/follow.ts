/**
 * Keeps a {@link Board} as it is in the engine: reads the lists, then asks `watch` what changed and reads again
 * what it names. One question of `watch` at a time, at most {@link MOST} others; what is named twice is read once.
 * When answers stop it tries again for ever, slower and slower, and goes on from its last cursor.
 */
import type { BlockId, Failure, RunId } from '@/ipc/bindings';
import { failureOf } from '@/ipc/call';
import type { Call } from '@/ipc/call';
import { isLive } from '@/lib/state';
import { Board } from './board';
import { backOff, plan, runOfBlock } from './plan';
import { Wants } from './wants';

export type Connection = 'loading' | 'live' | 'reconnecting' | { failed: Failure };
export type Asks = Pick<Call, 'runList' | 'runShow' | 'blockList' | 'blockShow' | 'orderList' | 'watch'>;

/** Clock and timers, so that tests own time. */
export interface Clock {
  now(): number;
  /** Runs `f` after `millis`, together with the next frame when it is soon. */
  after(millis: number, f: () => void): () => void;
}

export interface Told {
  changed(board: Board): void;
  connection(now: Connection, failure: Failure | null): void;
}

const MOST = 10;
const PAGE = 200;
/** As many open runs as the engine gives. */
const ALL = 10_000;
const WAIT_MS = 25_000;
const SOON_MS = 250;
const ORDERS = 'orders';
/** So many tries in a row before it is said that the engine cannot be reached. */
const PATIENCE = 3;

export class Follow {
  board = new Board();
  readonly #runs = new Wants(1000);
  readonly #blocks = new Wants(250);
  readonly #orders = new Wants(750);
  #cursor: string | null = null;
  #failures = 0;
  /** Rises when everything known is thrown away; answers of before are ignored. */
  #life = 0;
  #running = false;
  #cancelPump: (() => void) | null = null;
  #pumpAt = Number.POSITIVE_INFINITY;

  constructor(
    private readonly ask: Asks,
    private readonly clock: Clock,
    private readonly told: Told,
  ) {}

  start(): void {
    if (this.#running) return;
    this.#running = true;
    void this.#loop(this.#life);
  }

  stop(): void {
    this.#running = false;
    this.#life += 1;
    this.#cancelPump?.();
    this.#cancelPump = null;
    this.#pumpAt = Number.POSITIVE_INFINITY;
  }

  /** Forgets everything and begins anew: another engine answers from now on. */
  reset(): void {
    this.stop();
    this.board = new Board();
    this.#cursor = null;
    this.#failures = 0;
    for (const wants of [this.#runs, this.#blocks, this.#orders]) wants.clear();
    this.told.changed(this.board);
    this.told.connection('loading', null);
    this.start();
  }

  async loadOlder(): Promise<Failure | null> {
    const { board } = this;
    if (board.older === 0 || board.oldest === null) return null;
    const ticket = board.ticket('run');
    const answer = await this.ask.runList({ limit: PAGE, before: board.oldest });
    if (!answer.ok) return answer.failure;
    board.page(answer.value, ticket, false);
    this.told.changed(board);
    return null;
  }

  refreshRun(id: RunId): void {
    this.#want(this.#runs, id, true);
  }

  refreshBlock(id: BlockId): void {
    this.#want(this.#blocks, id, true);
  }

  refreshOrders(): void {
    this.#want(this.#orders, ORDERS, true);
  }

  async #loop(life: number): Promise<void> {
    while (this.#running && life === this.#life) {
      const failure = await this.#next(life).catch(failureOf);
      if (life !== this.#life) return;
      if (failure === null) {
        this.#failures = 0;
        this.told.connection('live', null);
        continue;
      }
      this.#failures += 1;
      const lost = failure.code === 'busy' || this.#failures >= PATIENCE;
      this.told.connection(lost ? { failed: failure } : this.board.runs.size > 0 || this.#cursor !== null ? 'reconnecting' : 'loading', failure);
      await new Promise<void>((resolve) => this.clock.after(backOff(this.#failures), resolve));
    }
  }

  async #next(life: number): Promise<Failure | null> {
    return this.#cursor === null ? this.#readAll(life) : this.#watch(life, this.#cursor);
  }

  /** Reads every list anew. The cursor is from before they were read, so that nothing between is missed. */
  async #readAll(life: number): Promise<Failure | null> {
    const { board } = this;
    const tickets = { run: board.ticket('run'), block: board.ticket('block'), orders: board.ticket('orders') };
    const runs = await this.ask.runList({ limit: PAGE });
    if (!runs.ok) return runs.failure;
    const [open, blocks, orders] = await Promise.all([
      this.ask.runList({ limit: ALL, open: true }),
      this.ask.blockList({ run: null, all: false }),
      this.ask.orderList({ all: false }),
    ]);
    if (!open.ok) return open.failure;
    if (!blocks.ok) return blocks.failure;
    if (!orders.ok) return orders.failure;
    if (life !== this.#life) return null;
    const listed = new Set([...runs.value.runs, ...open.value.runs].map((run) => run.id));
    const unsure = [...board.runs.values()].filter((run) => !listed.has(run.id) && (isLive(run) || run.state === 'review'));
    board.page(runs.value, tickets.run, true);
    for (const run of open.value.runs) board.run(run, tickets.run);
    board.openBlocks(blocks.value.blocks, tickets.block);
    board.openOrders(orders.value, tickets.orders);
    for (const block of blocks.value.blocks) this.#wantUnknown(runOfBlock(block.id));
    for (const order of orders.value.orders) if (order.last_run) this.#wantUnknown(order.last_run.id);
    for (const run of unsure) this.#want(this.#runs, run.id, true);
    this.#cursor = runs.value.cursor ?? null;
    this.told.changed(board);
    return this.#cursor === null ? this.#firstCursor(life) : null;
  }

  /** A run that something open points to is shown, however old it is. */
  #wantUnknown(id: RunId): void {
    if (!this.board.runs.has(id)) this.#want(this.#runs, id, true);
  }

  async #firstCursor(life: number): Promise<Failure | null> {
    const hints = await this.ask.watch({ wait_ms: 0 });
    if (!hints.ok) return hints.failure;
    if (life === this.#life) this.#cursor = hints.value.to;
    return null;
  }

  async #watch(life: number, cursor: string): Promise<Failure | null> {
    const asked = this.clock.now();
    const answer = await this.ask.watch({ cursor, wait_ms: WAIT_MS });
    if (!answer.ok) return answer.failure;
    if (life !== this.#life) return null;
    const next = plan(cursor, answer.value);
    if (next.do === 'all') {
      this.#cursor = null;
      return null;
    }
    this.#cursor = next.cursor;
    let moved = false;
    for (const hint of next.runs) {
      const urgent = this.board.hint(hint);
      moved ||= urgent;
      this.#want(this.#runs, hint.run, urgent);
    }
    for (const block of next.blocks) {
      this.#want(this.#blocks, block, false);
      this.#want(this.#runs, runOfBlock(block), true);
    }
    if (next.orders.length > 0 || moved) this.#want(this.#orders, ORDERS, false);
    if (next.runs.length > 0) this.told.changed(this.board);
    const nothing = next.runs.length + next.blocks.length + next.orders.length === 0;
    // An engine that says nothing at once, again and again, is not asked in a tight circle.
    if (nothing && this.clock.now() - asked < SOON_MS) await new Promise<void>((resolve) => this.clock.after(SOON_MS, resolve));
    return null;
  }

  #want(wants: Wants, id: string, urgent: boolean): void {
    wants.want(id, this.clock.now(), urgent);
    this.#schedule();
  }

  #schedule(): void {
    if (!this.#running || this.#underWay >= MOST) return;
    const due = [this.#runs, this.#blocks, this.#orders].map((wants) => wants.next() ?? Number.POSITIVE_INFINITY);
    const at = Math.min(...due);
    if (at === Number.POSITIVE_INFINITY || at >= this.#pumpAt) return;
    this.#cancelPump?.();
    this.#pumpAt = at;
    this.#cancelPump = this.clock.after(Math.max(0, at - this.clock.now()), () => {
      this.#cancelPump = null;
      this.#pumpAt = Number.POSITIVE_INFINITY;
      this.#pump();
    });
  }

  get #underWay(): number {
    return this.#runs.underWay + this.#blocks.underWay + this.#orders.underWay;
  }

  #pump(): void {
    const now = this.clock.now();
    for (const id of this.#blocks.take(now, MOST - this.#underWay)) void this.#settle(this.#blocks, id, this.#readBlock(id));
    for (const id of this.#runs.take(now, MOST - this.#underWay)) void this.#settle(this.#runs, id, this.#readRun(id));
    for (const id of this.#orders.take(now, MOST - this.#underWay)) void this.#settle(this.#orders, id, this.#readOrders());
    this.#schedule();
  }

  /** After a failure the thing is wanted again: the next hint about it may never come. */
  async #settle(wants: Wants, id: string, question: Promise<boolean>): Promise<void> {
    const life = this.#life;
    // An answer that cannot be understood counts as none.
    const answered = await question.catch((error: unknown) => {
      console.error(`what the engine says of ${id} cannot be shown`, error);
      return false;
    });
    if (life !== this.#life) return;
    wants.done(id, this.clock.now());
    if (answered) this.told.changed(this.board);
    else wants.want(id, this.clock.now() + backOff(3), false);
    this.#schedule();
  }

  async #readRun(id: RunId): Promise<boolean> {
    const { board } = this;
    const ticket = board.ticket('run');
    const answer = await this.ask.runShow({ run: id });
    if (answer.ok) board.run(answer.value, ticket);
    else if (answer.failure.code === 'not_found') board.noRun(id, ticket);
    else return false;
    return true;
  }

  async #readBlock(id: BlockId): Promise<boolean> {
    const { board } = this;
    const ticket = board.ticket('block');
    const answer = await this.ask.blockShow({ block: id });
    if (answer.ok) board.block(answer.value, ticket);
    else if (answer.failure.code === 'not_found') board.noBlock(id, ticket);
    else return false;
    return true;
  }

  async #readOrders(): Promise<boolean> {
    const { board } = this;
    const ticket = board.ticket('orders');
    const answer = await this.ask.orderList({ all: false });
    if (!answer.ok) return false;
    board.openOrders(answer.value, ticket);
    for (const order of answer.value.orders) if (order.last_run) this.#wantUnknown(order.last_run.id);
    return true;
  }
}
