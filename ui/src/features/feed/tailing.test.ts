import { describe, expect, it, vi } from 'vitest';
import type { RowSource, Tail } from './source';
import { startTailing } from './tailing';

function parts(outcomes: Tail[]) {
  const tail = vi.fn<RowSource['tail']>(() => {
    const next = outcomes.shift();
    return next === undefined ? new Promise(() => undefined) : Promise.resolve(next);
  });
  const pause = vi.fn(() => Promise.resolve());
  return { source: () => ({ tail }) as unknown as RowSource, tail, pause };
}
const settle = async (): Promise<void> => {
  for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
};

describe('tailing', () => {
  it('asks one after the other, a pause apart, also while there is more', async () => {
    const given = parts(['more', 'more', 'caught_up']);
    const tailing = startTailing({ ...given, isOn: () => true });
    await settle();
    expect([given.tail.mock.calls.length, given.pause.mock.calls.length]).toEqual([4, 3]);
    tailing.stop();
  });

  it('asks nothing while nobody follows, and goes on when woken', async () => {
    const given = parts(['more']);
    let isOn = false;
    const tailing = startTailing({ ...given, isOn: () => isOn });
    await settle();
    expect(given.tail).not.toHaveBeenCalled();
    isOn = true;
    tailing.wake();
    await settle();
    expect(given.tail).toHaveBeenCalledTimes(2);
    tailing.stop();
  });

  it('rests after the end or a failure until something changes', async () => {
    for (const outcome of ['ended', 'failed'] as const) {
      const given = parts([outcome]);
      const tailing = startTailing({ ...given, isOn: () => true });
      await settle();
      expect(given.tail).toHaveBeenCalledTimes(1);
      tailing.wake();
      await settle();
      expect(given.tail).toHaveBeenCalledTimes(2);
      tailing.stop();
    }
  });

  it('does not lose a wake-up that comes while it asks', async () => {
    let answer: (outcome: Tail) => void = () => undefined;
    const tail = vi.fn(() => new Promise<Tail>((resolve) => (answer = resolve)));
    const given = parts([]);
    const tailing = startTailing({ ...given, source: () => ({ tail }) as unknown as RowSource, isOn: () => true });
    await settle();
    tailing.wake();
    answer('ended');
    await settle();
    expect(tail).toHaveBeenCalledTimes(2);
    tailing.stop();
  });
});
