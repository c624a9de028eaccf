import { describe, expect, it } from 'vitest';
import { anOrder, aRun } from '@/lib/samples.fixture';
import { actionsCell, baseCell, changesCell, loadCell, timeCell } from './cells';
import { boardGroups, linesOf, waitsOn, waitWords } from './groups';
import { allows, flagsOf } from './picked';
import { pick, step, stillThere } from './selection';

const groupsOf = (runs: ReturnType<typeof aRun>[], orders: ReturnType<typeof anOrder>[] = [], find = '') =>
  boardGroups({ runs: new Map(runs.map((run) => [run.id, run])), runOrder: runs.map((run) => run.id), orders, find });

describe('groups of the board', () => {
  it('shows every run that needs the operator, oldest first, however many', () => {
    const runs = Array.from({ length: 500 }, (_, at) => aRun({ id: `r${at}`, open_blocks: 1 }));
    const needs = groupsOf(runs)[0];
    expect([needs?.group, needs?.rows.length, needs?.rows[0]?.id]).toEqual(['needs', 500, 'r499']);
  });
  it('counts the words of what is done', () => {
    const ended = { ended_at: '2026-12-01T10:00:00Z' };
    const done = groupsOf([aRun({ id: 'a', state: 'merged', commit: 'c', ...ended }), aRun({ id: 'b', state: 'failed', reason: { reason: 'agent', message: '' }, ...ended })]).at(-1);
    expect(done?.words).toEqual([{ word: 'Merged', count: 1 }, { word: 'Failed', count: 1 }]);
  });
  it('lists an order only while it waits', () => {
    const queued = groupsOf([], [anOrder(), anOrder({ id: 'two', state: 'dispatched', run: 'rone' })]).find(({ group }) => group === 'queued');
    expect(queued?.rows.map(({ id }) => id)).toEqual(['oone']);
  });
  it('finds by title, repository, branch and id', () => {
    const runs = [aRun({ id: 'a', title: 'Parser' }), aRun({ id: 'b', title: 'Docs', branch: 'foreman/parse', repo: '/x' }), aRun({ id: 'c', title: 'Docs', repo: '/x', branch: 'y' })];
    expect(groupsOf(runs, [], ' PARSE').flatMap(({ rows }) => rows.map(({ id }) => id))).toEqual(['a', 'b']);
  });
  it('ends the list with what is not loaded', () => {
    expect(linesOf(groupsOf([]), 9800).flatMap(({ lines }) => lines.map(({ line }) => line))).toEqual(['head', 'older']);
    expect(linesOf(groupsOf([]), 0)).toEqual([]);
  });
  it('says why an order waits and on whom', () => {
    const held = anOrder({ wait: { wait: 'scope', held_by: 'other', why: { clash: 'holder_strict' }, words: 'other holds the tree' } });
    expect([waitWords(held), waitsOn(held)]).toEqual(['other holds the tree', ['other']]);
    const cycle = anOrder({ wait: { wait: 'cycle', members: ['oone', 'two'], words: 'a circle' } });
    expect(waitsOn(cycle)).toEqual(['two']);
    expect(waitWords(anOrder())).toBe('Next to start');
    expect(waitsOn(anOrder({ wait: { wait: 'new_reason', words: 'something new' } }))).toEqual([]);
  });
});

describe('cells', () => {
  const now = Date.parse('2026-12-01T11:00:00Z');
  it('never show what was not measured as a figure', () => {
    expect(loadCell(aRun(), null).title).toBe('Memory and processes are not measured');
    expect(loadCell(aRun(), { at: '', cpu_millicores: null, memory_bytes: null, processes: 3, disk_bytes: null }).title).toBe('Memory not measured, 3 processes');
    expect(changesCell(aRun()).title).toBe('Changes are not known');
    expect(baseCell(aRun()).title).toContain('not known');
  });
  it('tell time since the start, and of a run that is over how long it took', () => {
    expect(timeCell(aRun({ last_event_at: '2026-12-01T10:59:30Z' }), now)).toMatchObject({ first: '1 h', second: '30 s ago' });
    expect(timeCell(aRun({ ended_at: '2026-12-01T10:10:00Z', state: 'merged' }), now)).toMatchObject({ first: '10 min', second: '50 min ago' });
    expect(timeCell(aRun({ last_event_at: null }), now).second).toBe('no event');
  });
  it('count what was blocked and let through', () => {
    expect(actionsCell(aRun({ subjects_blocked: 1, subjects_allowed: 41 })).title).toBe('1 subject blocked, 41 subjects allowed');
  });
});

describe('picked rows', () => {
  const keys = ['run:a', 'run:b', 'run:c', 'order:d'];
  it('picks a range with Shift and forgets what has gone', () => {
    const range = pick(new Set(['run:a']), keys, 'run:c', true, 'run:a');
    expect([...range]).toEqual(['run:a', 'run:b', 'run:c']);
    expect([...stillThere(range, ['run:b'])]).toEqual(['run:b']);
    expect([...pick(range, keys, 'run:b', false, null)]).toEqual(['run:a', 'run:c']);
  });
  it('moves within the rows and starts at an end', () => {
    expect([step(keys, null, 1), step(keys, null, -1), step(keys, 'order:d', 1), step(keys, 'run:b', -1), step([], null, 1)]).toEqual(['run:a', 'order:d', 'order:d', 'run:a', null]);
    expect(step(keys, 'run:gone', 1)).toBe('run:a');
  });
  it('offers only what the state allows', () => {
    const live = { kind: 'run', id: 'a', run: aRun() } as const;
    const over = { kind: 'run', id: 'b', run: aRun({ state: 'review' }) } as const;
    const gone = { kind: 'run', id: 'c', run: aRun({ state: 'discarded' }) } as const;
    const order = { kind: 'order', id: 'd', order: anOrder() } as const;
    expect([live, over, gone, order].map((row) => [allows('stop', row), allows('cancel', row), allows('discard', row)])).toEqual([
      [true, false, false], [false, false, true], [false, false, false], [false, true, false],
    ]);
  });
  it('flags dirty and unlanded work in words', () => {
    expect(flagsOf({ reason: 'dirty', files: 3, first: ['a\u202e.txt'] })).toEqual([{ word: '3 uncommitted files: a⟦U+202E⟧.txt', bad: true }]);
    expect(flagsOf({ reason: 'unlanded', commits: 1 })).toEqual([{ word: '1 commit not in its base branch', bad: true }]);
    expect(flagsOf(null)).toEqual([]);
  });
});
