/** What an answer of `watch` means for what is shown. Pure: no call is made here. */
import type { BlockId, BlockView, Hints, OrderId, RunHint, RunId } from '@/ipc/bindings';

export type Plan =
  | { do: 'all'; cursor: string; why: 'resync' | 'hole' }
  | { do: 'some'; cursor: string; runs: RunHint[]; blocks: BlockId[]; orders: OrderId[] };

/** A hole is an answer from another place than the one that was asked for: what lies between is unknown. */
export function plan(asked: string, hints: Hints): Plan {
  if (hints.resync) return { do: 'all', cursor: hints.to, why: 'resync' };
  if (hints.from !== asked) return { do: 'all', cursor: hints.to, why: 'hole' };
  return { do: 'some', cursor: hints.to, runs: hints.runs, blocks: hints.blocks, orders: hints.orders };
}

/** The run that a block belongs to: a block's id is its run's id, a dash and a number. */
export function runOfBlock(block: BlockId): RunId {
  const dash = block.lastIndexOf('-');
  return dash > 0 ? block.slice(0, dash) : block;
}

/** True while a block is a question to the operator, as the engine says it; one of before it said so counts while it is open. */
export function asksNow(block: BlockView): boolean {
  return block.asks ?? block.state === 'open';
}

/** Milliseconds to wait before the next try after `failures` failures in a row. */
export function backOff(failures: number): number {
  return Math.min(10_000, 250 * 2 ** Math.min(failures, 6));
}
