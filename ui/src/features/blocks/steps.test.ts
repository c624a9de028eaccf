import { beforeEach, describe, expect, it, vi } from 'vitest';
import { call } from '@/ipc/call';
import { learnStep, stepOf } from './steps';

vi.mock('@/ipc/call', () => ({ call: { runEvents: vi.fn() } }));
const events = vi.mocked(call.runEvents);

interface Held {
  readonly block: string;
  readonly step: string;
}
function page(held: readonly Held[], cursor: number) {
  const all = held.map(({ block, step }) => ({ kind: 'block', step, block: { id: block } }));
  return { ok: true, value: { events: all, cursor, ended: false } } as never;
}

beforeEach(() => vi.clearAllMocks());

describe('the step of a block', () => {
  it('is read once, goes on where it ended, and finds blocks that come later', async () => {
    events.mockResolvedValueOnce(page([{ block: 'one-b1', step: 'setup' }, { block: 'one-b2', step: 'agent' }], 40));
    await Promise.all([learnStep('one-b1'), learnStep('one-b2')]);
    expect([stepOf('one-b1'), stepOf('one-b2')]).toEqual(['setup', 'agent']);
    expect(events).toHaveBeenCalledTimes(1);
    for (let number = 3; number < 20; number += 1) {
      events.mockResolvedValueOnce(page([{ block: `one-b${String(number)}`, step: 'check' }], 40 + number));
      await learnStep(`one-b${String(number)}`);
    }
    expect(stepOf('one-b19')).toBe('check');
    expect(events).toHaveBeenLastCalledWith(expect.objectContaining({ run: 'one', after: 58, kinds: ['block'] }));
  });

  it('gives up in a run with very many, and says nothing', async () => {
    const full = Array.from({ length: 512 }, () => ({ block: 'two-b1', step: 'agent' }));
    events.mockResolvedValue(page(full, 512));
    await learnStep('two-b9');
    expect(stepOf('two-b9')).toBeNull();
    expect(events).toHaveBeenCalledTimes(8);
  });

  it('is not known when it cannot be read', async () => {
    events.mockResolvedValue({ ok: false, failure: { code: 'not_found', message: 'no such run' } } as never);
    await learnStep('three-b1');
    expect(stepOf('three-b1')).toBeNull();
  });
});
