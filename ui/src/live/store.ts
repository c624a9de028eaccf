import { defineStore } from 'pinia';
import { shallowRef } from 'vue';
import type { BlockId, BlockView, Failure, FaultyOrder, FileFault, OrderView, QueueView, RunId, RunView } from '@/ipc/bindings';
import { call } from '@/ipc/call';
import { newestFirst } from './board';
import type { Board } from './board';
import { Follow } from './follow';
import type { Clock, Connection } from './follow';

/** Soon is with the next frame; a hidden window has no frames and waits a little longer instead. */
const clock: Clock = {
  now: () => performance.now(),
  after(millis, f) {
    if (millis < 17 && !document.hidden) {
      const frame = requestAnimationFrame(f);
      return () => cancelAnimationFrame(frame);
    }
    const timer = setTimeout(f, Math.max(millis, document.hidden ? 250 : 0));
    return () => clearTimeout(timer);
  },
};

/** Runs, open blocks and orders as they are in the engine now. */
export const useLive = defineStore('live', () => {
  const runs = shallowRef<ReadonlyMap<RunId, RunView>>(new Map());
  const runOrder = shallowRef<readonly RunId[]>([]);
  const blocks = shallowRef<ReadonlyMap<BlockId, BlockView>>(new Map());
  const orders = shallowRef<readonly OrderView[]>([]);
  const faults = shallowRef<readonly FaultyOrder[]>([]);
  const fileFaults = shallowRef<readonly FileFault[]>([]);
  const queue = shallowRef<QueueView | null>(null);
  const older = shallowRef(0);
  const connection = shallowRef<Connection>('loading');
  const failure = shallowRef<Failure | null>(null);
  let waiting: (() => void) | null = null;
  let known = 0;

  function show(board: Board): void {
    runs.value = new Map(board.runs);
    if (board.runs.size !== known || runOrder.value.some((id) => !board.runs.has(id))) {
      runOrder.value = newestFirst(board.runs.values());
      known = board.runs.size;
    }
    blocks.value = new Map(board.blocks);
    orders.value = board.orders;
    faults.value = board.faults;
    fileFaults.value = board.fileFaults;
    queue.value = board.queue;
    older.value = board.older;
  }

  const follow = new Follow(call, clock, {
    changed(board) {
      waiting ??= clock.after(0, () => {
        waiting = null;
        show(follow.board);
      });
      if (board.runs.size === 0) show(board);
    },
    connection(now, why) {
      connection.value = now;
      failure.value = why;
    },
  });

  return {
    runs,
    runOrder,
    blocks,
    orders,
    faults,
    fileFaults,
    queue,
    older,
    connection,
    failure,
    start: () => follow.start(),
    stop: () => follow.stop(),
    reset: () => follow.reset(),
    loadOlder: () => follow.loadOlder(),
    refreshRun: (id: RunId) => follow.refreshRun(id),
    refreshBlock: (id: BlockId) => follow.refreshBlock(id),
    refreshOrders: () => follow.refreshOrders(),
  };
});
