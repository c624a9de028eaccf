import { clearMocks, mockIPC } from '@tauri-apps/api/mocks';
import { createPinia, setActivePinia } from 'pinia';
import { afterEach, expect, it, vi } from 'vitest';
import { aBlock, anOrder, aQueue, aRun } from '@/lib/samples.fixture';
import { useLive } from './store';

afterEach(() => clearMocks());

it('shows what the engine has, and under another engine only what that one has', async () => {
  let engine = 'own';
  mockIPC((name) => {
    const run = aRun({ id: engine, open_blocks: 1 });
    switch (name) {
      case 'run_list':
        return { runs: [run], older: 7, cursor: '1' };
      case 'block_list':
        return { blocks: [aBlock({ id: `${engine}-b1` })] };
      case 'order_list':
        return { orders: [anOrder()], faults: [], file_faults: [], queue: aQueue({ waiting: 1 }) };
      default:
        return new Promise(() => undefined);
    }
  });
  setActivePinia(createPinia());
  const live = useLive();
  live.start();
  await vi.waitFor(() => expect([...live.blocks.keys()]).toEqual(['own-b1']));
  expect([live.connection, live.runOrder, live.older, live.orders.length, live.queue?.waiting]).toEqual(['live', ['own'], 7, 1, 1]);
  engine = 'demo';
  live.reset();
  expect(live.runs.size).toBe(0);
  await vi.waitFor(() => expect([...live.runs.keys()]).toEqual(['demo']));
  expect([...live.blocks.keys()]).toEqual(['demo-b1']);
  live.stop();
});

it('says that no engine answers instead of showing an empty board as the truth', async () => {
  vi.useFakeTimers();
  mockIPC(() => Promise.reject({ code: 'busy', message: 'The database is newer than this SDF', hint: 'Install the newer one.' }));
  setActivePinia(createPinia());
  const live = useLive();
  live.start();
  await vi.advanceTimersByTimeAsync(10);
  expect(live.connection).toEqual({ failed: { code: 'busy', message: 'The database is newer than this SDF', hint: 'Install the newer one.' } });
  live.stop();
  vi.useRealTimers();
});
