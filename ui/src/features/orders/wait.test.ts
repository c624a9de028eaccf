import { describe, expect, it } from 'vitest';
import type { AgentView, OrderView, Waiting } from '@/ipc/bindings';
import { fieldOf } from './faults';
import { presetOf } from './presets';
import { cancelReason, dispatchOf, editReason, orderWord, waitsOn, waitsUntil } from './wait';

const waiting = (wait: object): Waiting => ({ words: 'w', ...wait }) as Waiting;
const order = (changes: object): OrderView => ({ id: 'o1', wait: null, ...changes }) as OrderView;

describe('a wait', () => {
  it('names the orders that come first', () => {
    expect(waitsOn(waiting({ wait: 'dependency', on: [{ order: 'a', state: 'unfinished' }] }))).toEqual(['a']);
    expect(waitsOn(waiting({ wait: 'cycle', members: ['a', 'b'] }))).toEqual(['a', 'b']);
    expect(waitsOn(waiting({ wait: 'scope', held_by: 'c', why: { clash: 'holder_strict' } }))).toEqual(['c']);
    expect(waitsOn(waiting({ wait: 'paused' }))).toEqual([]);
  });
  it('says until when, where that is known', () => {
    expect(waitsUntil(waiting({ wait: 'retry', at: 't', why: 'x' }))).toBe('t');
    expect(waitsUntil(waiting({ wait: 'budget', what: 'tokens', left: 0 }))).toBeNull();
  });
});

describe('an order', () => {
  it('can be dispatched, cancelled and edited where that means something', () => {
    const states = [{ state: 'queued' }, { state: 'dispatched', run: 'r' }, { state: 'done', how: { how: 'merged' } }, { state: 'failed', why: {} }, { state: 'cancelled' }].map(order);
    expect(states.map((one) => dispatchOf(one).reason === null)).toEqual([true, false, false, true, true]);
    expect(states.map((one) => cancelReason(one) === null)).toEqual([true, true, false, true, false]);
    expect(states.map((one) => editReason(one) === null)).toEqual([true, false, false, false, false]);
    expect(states.map((one) => orderWord(one).word)).toEqual(['Next', 'Dispatched', 'Done: merged', 'Failed', 'Cancelled']);
    expect(orderWord(order({ state: 'queued', wait: waiting({ wait: 'fault', message: 'm' }) })).word).toBe('Cannot start');
  });
});

describe('presets', () => {
  const agent = (program: string, path: string | null): AgentView => ({ name: program, program, path, version: null, looked_in: [], hint: '' });
  it('fill the command of an agent that was found', () => {
    expect(presetOf(agent('codex', '/usr/bin/codex'))).toEqual(['/usr/bin/codex', 'exec', '--json', '-s', 'danger-full-access', '{prompt}']);
    expect(presetOf(agent('mine', '/x/mine'))).toEqual(['/x/mine', '{prompt}']);
    expect(presetOf(agent('codex', null))).toBeNull();
  });
});

describe('fieldOf', () => {
  it('goes by what the engine names, and never by its words', () => {
    expect(fieldOf({ code: 'bad_input', message: '', about: 'depends_on' })).toBe('dependsOn');
    expect(fieldOf({ code: 'bad_input', message: '', about: 'open_files' })).toBe('openFiles');
    expect(fieldOf({ code: 'bad_policy', message: '--allow: "x" has no port' })).toBeNull();
    expect(fieldOf({ code: 'wall_missing', message: '' })).toBe('accept');
    expect(fieldOf({ code: 'bad_input', message: '', about: 'toString' as never })).toBeNull();
  });
});
