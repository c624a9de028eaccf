import { describe, expect, it } from 'vitest';
import type { MergeEntry, StepResult } from '@/ipc/bindings';
import { checkWord, gateParts, isUnderWay, movedWords, notPassed, queueWords } from './gate-words';
import { sampleCheck, sampleGate } from './sample.fixture';
import { syncWords } from './sync-words';

describe('the gate in words', () => {
  it('names only what there is, the gravest first', () => {
    const parts = gateParts(sampleGate({ denied: ['tcp x:443'], steering: ['Makefile'] }), ['plants a hook']);
    expect(parts.map((part) => part.id)).toEqual(['flags', 'steering', 'denied']);
    expect(gateParts(sampleGate(), [])).toEqual([]);
  });

  it('leaves checks to their own panel', () => {
    const failing = sampleCheck({ result: { result: 'exited', code: 1 }, words: 'make test failed' });
    const parts = gateParts(sampleGate({ checks: [failing] }), ['check make test failed', 'check list.txt is a symbolic link out of the tree']);
    expect(parts[0]?.items).toEqual(['check list.txt is a symbolic link out of the tree']);
  });

  it('counts a check that did not run as no pass', () => {
    expect(notPassed([sampleCheck(), sampleCheck({ result: null })])).toHaveLength(1);
  });

  it('has a word for every end of a check', () => {
    const results: (StepResult | null)[] = [
      null, { result: 'succeeded' }, { result: 'exited', code: 3 }, { result: 'signalled', signal: 9 },
      { result: 'not_started', why: 'x' }, { result: 'stopped', why: 'x' }, { result: 'skipped', why: 'x' },
    ];
    expect(results.map((result) => checkWord(result).word)).toEqual([
      'Not run', 'Passed', 'Failed with code 3', 'Ended by signal 9', 'Did not start', 'Stopped', 'Skipped',
    ]);
  });

  it('says how far the base has moved', () => {
    expect(movedWords(0, 'main')).toBe('Builds on main as it is now.');
    expect(movedWords(1, 'main')).toBe('main has 1 commit that this run does not build on.');
  });

  it('says where it stands in the queue', () => {
    const entry = { number: 1, run: 'r', by_itself: false, queued_at: '', ended_at: null };
    const of = (standing: object): MergeEntry => ({ ...entry, ...standing }) as MergeEntry;
    expect(queueWords(of({ standing: 'waiting' }), 2)).toBe('In the merge queue, 2 runs before it.');
    expect(queueWords(of({ standing: 'returned', reason: 'it conflicts' }), 0)).toBe('The merge queue gave it back: it conflicts.');
    expect([of({ standing: 'working' }), of({ standing: 'merged', commit: 'c' }), null].map(isUnderWay)).toEqual([true, false, false]);
  });
});

describe('a sync in words', () => {
  it('warns when it changes something else than before', () => {
    const synced = { sync: 'synced' as const, old_head: 'a', head: 'b', base: 'c', replayed: true, dropped: 1, same_changes: false };
    expect(syncWords(synced, 'main')).toMatchObject({ tone: 'warn', text: expect.stringContaining('look at it again') });
  });
  it('names the files of a conflict', () => {
    expect(syncWords({ sync: 'conflict', base: 'c', commit: null, paths: ['a'] }, 'main')).toMatchObject({ tone: 'bad', paths: ['a'] });
  });
});
