import { describe, expect, it } from 'vitest';
import { aBlock, aQueue, aRun } from '@/lib/samples.fixture';
import { Board, newestFirst } from './board';
import { backOff, plan, runOfBlock } from './plan';
import { Tickets } from './tickets';
import { Wants } from './wants';

const NOTHING = { resync: false, runs: [], orders: [], blocks: [] };

describe('plan', () => {
  it('takes hints that follow on what was asked', () => {
    const hint = { run: 'rone', last_seq: 4, state: 'running' };
    expect(plan('1', { ...NOTHING, from: '1', to: '2', runs: [hint] })).toEqual({ do: 'some', cursor: '2', runs: [hint], blocks: [], orders: [] });
  });
  it('reads everything anew after a resync or a hole', () => {
    expect(plan('1', { ...NOTHING, from: null, to: '9', resync: true })).toEqual({ do: 'all', cursor: '9', why: 'resync' });
    expect(plan('1', { ...NOTHING, from: '3', to: '9' })).toEqual({ do: 'all', cursor: '9', why: 'hole' });
  });
  it('finds the run of a block', () => {
    expect(runOfBlock('r7k2mqdx-b12')).toBe('r7k2mqdx');
  });
  it('backs off to at most ten seconds', () => {
    expect([1, 2, 3, 99].map(backOff)).toEqual([500, 1000, 2000, 10_000]);
  });
});

describe('tickets', () => {
  it('drops an answer that a newer question overtook', () => {
    const tickets = new Tickets();
    const first = tickets.take();
    const second = tickets.take();
    expect(tickets.accept('a', second)).toBe(true);
    expect(tickets.accept('a', first)).toBe(false);
    expect(tickets.accept('b', first)).toBe(true);
  });
  it('drops answers of before a list of everything', () => {
    const tickets = new Tickets();
    const old = tickets.take();
    const list = tickets.take();
    expect(tickets.acceptAll(list)).toBe(true);
    expect(tickets.accept('a', old)).toBe(false);
    expect(tickets.acceptAll(old)).toBe(false);
  });
});

describe('wants', () => {
  it('asks once for what is named many times, and again for what was named meanwhile', () => {
    const wants = new Wants(1000);
    for (let time = 0; time < 20; time += 1) wants.want('a', time, false);
    expect(wants.take(20, 10)).toEqual(['a']);
    wants.want('a', 30, false);
    expect(wants.take(2000, 10)).toEqual([]);
    wants.done('a', 40);
    expect(wants.next()).toBe(1020);
    expect(wants.take(1019, 10)).toEqual([]);
    expect(wants.take(1020, 10)).toEqual(['a']);
  });
  it('does not make what is urgent wait', () => {
    const wants = new Wants(1000);
    wants.want('a', 0, false);
    wants.take(0, 1);
    wants.done('a', 5);
    wants.want('a', 10, false);
    wants.want('a', 11, true);
    expect(wants.take(11, 1)).toEqual(['a']);
  });
  it('never has more under way than it is allowed, the longest due first', () => {
    const wants = new Wants(0);
    for (const [at, id] of ['a', 'b', 'c'].entries()) wants.want(id, at, true);
    expect(wants.take(5, 2)).toEqual(['a', 'b']);
    expect(wants.underWay).toBe(2);
    expect(wants.take(5, 0)).toEqual([]);
  });
  it('forgets what nobody wants any more', () => {
    const wants = new Wants(10);
    wants.want('a', 0, false);
    wants.take(0, 1);
    wants.done('a', 20);
    expect(wants.next()).toBeNull();
  });
});

describe('board', () => {
  it('keeps the newest answer about a run, whichever comes first', () => {
    const board = new Board();
    const old = board.ticket('run');
    const fresh = board.ticket('run');
    board.run(aRun({ state: 'review' }), fresh);
    board.run(aRun({ state: 'running' }), old);
    expect(board.runs.get('rone')?.state).toBe('review');
  });
  it('shows a new head from a hint and asks at once when the state moved', () => {
    const board = new Board();
    board.run(aRun(), board.ticket('run'));
    expect(board.hint({ run: 'rone', last_seq: 12, state: 'running' })).toBe(false);
    expect(board.runs.get('rone')?.last_seq).toBe(12);
    expect(board.hint({ run: 'rone', last_seq: 11, state: 'running' })).toBe(false);
    expect(board.runs.get('rone')?.last_seq).toBe(12);
    expect(board.hint({ run: 'rone', last_seq: 12, state: 'review' })).toBe(true);
    expect(board.hint({ run: 'other', last_seq: 1, state: 'running' })).toBe(true);
  });
  it('forgets a run that was deleted elsewhere, with its blocks', () => {
    const board = new Board();
    board.run(aRun(), board.ticket('run'));
    board.block(aBlock(), board.ticket('block'));
    board.noRun('rone', board.ticket('run'));
    expect([board.runs.size, board.blocks.size]).toEqual([0, 0]);
  });
  it('drops blocks that are decided, and those that a list does not name any more', () => {
    const board = new Board();
    board.block(aBlock(), board.ticket('block'));
    board.block(aBlock({ state: 'denied', by: 'operator', reason: '' }), board.ticket('block'));
    expect(board.blocks.size).toBe(0);
    board.block(aBlock({ id: 'rone-b2' }), board.ticket('block'));
    board.openBlocks([aBlock({ id: 'rone-b3' })], board.ticket('block'));
    expect([...board.blocks.keys()]).toEqual(['rone-b3']);
  });
  it('keeps a bound that a run goes on at until it is answered, or its run is settled', () => {
    const board = new Board();
    const reached = aBlock({ state: 'gone', asks: true, subject: { type: 'bound', bound: 'processes' } });
    board.openBlocks([reached, aBlock({ id: 'rone-b2', state: 'gone', asks: false })], board.ticket('block'));
    expect([...board.blocks.keys()]).toEqual(['rone-b1']);
    board.block({ ...reached, asks: false }, board.ticket('block'));
    expect(board.blocks.size).toBe(0);
    board.block(reached, board.ticket('block'));
    board.run(aRun({ state: 'review', head: 'a', base: 'b', agent_succeeded: true }), board.ticket('run'));
    expect(board.blocks.size).toBe(1);
    board.run(aRun({ state: 'discarded', snapshot: 's' }), board.ticket('run'));
    expect(board.blocks.size).toBe(0);
  });
  it('keeps what came while a list of open blocks was under way', () => {
    const board = new Board();
    const list = board.ticket('block');
    board.block(aBlock({ id: 'rone-b2' }), board.ticket('block'));
    board.block(aBlock({ id: 'rone-b1', state: 'gone' }), board.ticket('block'));
    board.openBlocks([aBlock({ id: 'rone-b1' })], list);
    expect([...board.blocks.keys()]).toEqual(['rone-b2']);
  });
  it('knows where the loaded pages end', () => {
    const board = new Board();
    board.page({ runs: [aRun({ id: 'r3' }), aRun({ id: 'r2' })], older: 1, cursor: '1' }, board.ticket('run'), true);
    expect([board.oldest, board.older]).toEqual(['r2', 1]);
    board.page({ runs: [aRun({ id: 'r1' })], older: 0, cursor: '1' }, board.ticket('run'), false);
    expect([board.oldest, board.older]).toEqual(['r1', 0]);
  });
  it('lets only the newest list of orders count', () => {
    const board = new Board();
    const old = board.ticket('orders');
    board.openOrders({ orders: [], faults: [], file_faults: [], queue: aQueue({ waiting: 2 }) }, board.ticket('orders'));
    board.openOrders({ orders: [], faults: [], file_faults: [], queue: aQueue({ waiting: 9 }) }, old);
    expect(board.queue?.waiting).toBe(2);
  });
  it('orders runs by when they were made, newest first', () => {
    const older = aRun({ id: 'r1', created_at: '2026-12-01T09:00:00Z' });
    expect(newestFirst([older, aRun({ id: 'r2' })])).toEqual(['r2', 'r1']);
  });
});
