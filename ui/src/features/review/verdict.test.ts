import { describe, expect, it } from 'vitest';
import type { MergeEntry } from '@/ipc/bindings';
import { sampleCheck, sampleDiff, sampleGate, sampleRun } from './sample.fixture';
import { standingOf, verdictOf } from './verdict';

const entry = (standing: 'waiting' | 'working'): MergeEntry =>
  ({ number: 1, run: 'r7k2mqdx', by_itself: false, queued_at: '', ended_at: null, standing }) as MergeEntry;
const seen = { run: sampleRun(), diff: sampleDiff(), entry: null, doing: null };
const failing = sampleCheck({ result: { result: 'exited', code: 2 }, words: 'make test failed' });

describe('verdictOf', () => {
  it('lets a passing run on its base be merged', () => {
    expect(verdictOf(seen)).toMatchObject({ merge: null, queue: null, sync: null, discard: null, send: null, despite: false });
  });

  it('waits for the diff', () => {
    expect(verdictOf({ ...seen, diff: null }).merge).toMatch(/being read/);
  });

  it('names a base that moved and offers the queue', () => {
    const verdict = verdictOf({ ...seen, diff: sampleDiff({ gate: sampleGate({ base_moved: 2 }), refusal: 'main has moved' }) });
    expect(verdict.merge).toBe('main has 2 commits that it does not build on. Sync and re-check, or merge by the queue.');
    expect(verdict.queue).toBeNull();
  });

  it('asks for a reason where only checks are in the way', () => {
    const diff = sampleDiff({ gate: sampleGate({ checks: [failing] }), refusal: 'check make test failed', refused_for: 'checks' });
    expect(verdictOf({ ...seen, diff })).toMatchObject({ despite: true, merge: 'Check make test failed.', queue: null });
  });

  it('gives the engine’s reason for everything else', () => {
    const diff = sampleDiff({ gate: sampleGate({ checks: [failing] }), refusal: 'check out another branch: src/a.rs is changed', refused_for: 'repository' });
    expect(verdictOf({ ...seen, diff })).toMatchObject({ despite: false, merge: 'Check out another branch: src/a.rs is changed.' });
  });

  it('leaves a run alone that the queue works on', () => {
    for (const standing of ['waiting', 'working'] as const) {
      expect(verdictOf({ ...seen, entry: entry(standing) })).toMatchObject({ merge: expect.stringMatching(/queue/), discard: expect.stringMatching(/queue/) });
    }
  });

  it('says what it is doing', () => {
    expect(verdictOf({ ...seen, doing: 'It is being merged.' })).toMatchObject({ merge: 'It is being merged.', sync: 'It is being merged.' });
  });

  it('has a word for every other state', () => {
    const states = [
      { state: 'running', step: 'agent', outcome: null, ended_at: null }, { state: 'merged', commit: 'c' }, { state: 'no_changes' },
      { state: 'cancelled', by: { cause: 'operator' } }, { state: 'discarded', snapshot: 's' },
    ];
    const reasons = states.map((state) => verdictOf({ ...seen, run: sampleRun(state as never) }).merge);
    expect(verdictOf({ ...seen, run: sampleRun({ state: 'merged', commit: 'c' } as never) }).send).toMatch(/waits for a review/);
    expect(new Set(reasons).size).toBe(states.length);
    expect(reasons).not.toContain(null);
    expect(verdictOf({ ...seen, run: sampleRun({ state: 'discarded', snapshot: 's' } as never) }).restore).toBeNull();
    expect(standingOf(sampleRun({ state: 'discarded', snapshot: 'refs/x' } as never))?.text).toContain('refs/x');
    expect(standingOf(sampleRun())).toBeNull();
  });
});
