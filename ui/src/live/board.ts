/** What is known of runs, blocks and orders, and how answers change it. No call is made here. */
import type {
  BlockId, BlockView, FaultyOrder, FileFault, Orders, OrderView, QueueView, RunHint, RunId, RunView, Runs,
} from '@/ipc/bindings';
import { asksNow } from './plan';
import { Tickets } from './tickets';

export class Board {
  readonly runs = new Map<RunId, RunView>();
  readonly blocks = new Map<BlockId, BlockView>();
  orders: OrderView[] = [];
  faults: FaultyOrder[] = [];
  fileFaults: FileFault[] = [];
  queue: QueueView | null = null;
  /** Past runs that are not loaded. */
  older = 0;
  /** The oldest run of the loaded pages: where the next page begins. */
  oldest: RunId | null = null;
  readonly #runTickets = new Tickets();
  readonly #blockTickets = new Tickets();
  readonly #orderTickets = new Tickets();

  ticket(of: 'run' | 'block' | 'orders'): number {
    return { run: this.#runTickets, block: this.#blockTickets, orders: this.#orderTickets }[of].take();
  }

  /** A page of the list of runs. The first page of several says anew where the loaded pages end. */
  page(answer: Runs, ticket: number, first: boolean): void {
    for (const run of answer.runs) this.run(run, ticket);
    const oldest = answer.runs.at(-1)?.id ?? null;
    if (!first && oldest === null) {
      this.older = 0;
      return;
    }
    if (first) this.oldest = null;
    this.oldest = oldest ?? this.oldest;
    this.older = answer.older ?? 0;
  }

  run(run: RunView, ticket: number): void {
    if (!this.#runTickets.accept(run.id, ticket)) return;
    // What went on in it is settled: nothing of it is asked any more.
    if (run.state === 'merged' || run.state === 'discarded') this.#dropBlocks(run.id);
    // A hint may have told of a later event while this answer was under way.
    const last = Math.max(run.last_seq, this.runs.get(run.id)?.last_seq ?? 0);
    this.runs.set(run.id, last === run.last_seq ? run : { ...run, last_seq: last });
  }

  /** The engine has no such run any more. */
  noRun(id: RunId, ticket: number): void {
    if (!this.#runTickets.accept(id, ticket)) return;
    this.runs.delete(id);
    this.#dropBlocks(id);
  }

  #dropBlocks(run: RunId): void {
    for (const block of this.blocks.keys()) if (block.startsWith(`${run}-`)) this.blocks.delete(block);
  }

  /** What a hint says of itself. True when the run has to be read again at once. */
  hint(hint: RunHint): boolean {
    const known = this.runs.get(hint.run);
    if (!known) return true;
    if (hint.last_seq > known.last_seq) this.runs.set(hint.run, { ...known, last_seq: hint.last_seq });
    return known.state !== hint.state;
  }

  /** Every block there is that asks something. */
  openBlocks(blocks: readonly BlockView[], ticket: number): void {
    const newer = [...this.blocks.values()].filter((block) => this.#blockTickets.isNewer(block.id, ticket));
    const decided = blocks.filter((block) => this.#blockTickets.isNewer(block.id, ticket));
    if (!this.#blockTickets.acceptAll(ticket)) return;
    const skip = new Set(decided.map((block) => block.id));
    this.blocks.clear();
    for (const block of blocks) if (asksNow(block) && !skip.has(block.id)) this.blocks.set(block.id, block);
    for (const block of newer) this.blocks.set(block.id, block);
  }

  block(block: BlockView, ticket: number): void {
    if (!this.#blockTickets.accept(block.id, ticket)) return;
    if (asksNow(block)) this.blocks.set(block.id, block);
    else this.blocks.delete(block.id);
  }

  noBlock(id: BlockId, ticket: number): void {
    if (this.#blockTickets.accept(id, ticket)) this.blocks.delete(id);
  }

  openOrders(answer: Orders, ticket: number): void {
    if (!this.#orderTickets.acceptAll(ticket)) return;
    this.orders = answer.orders;
    this.faults = answer.faults;
    this.fileFaults = answer.file_faults;
    this.queue = answer.queue;
  }
}

/** Ids of runs, newest first. */
export function newestFirst(runs: Iterable<RunView>): RunId[] {
  return [...runs]
    .sort((left, right) => (left.created_at < right.created_at ? 1 : left.created_at > right.created_at ? -1 : left.id < right.id ? 1 : -1))
    .map((run) => run.id);
}
