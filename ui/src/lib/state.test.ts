import { describe, expect, it } from 'vitest';
import { aRun } from './samples.fixture';
import { isLive, runGroup, runWord } from './state';

describe('state of a run', () => {
  it('puts a live run with open blocks under Needs you, whatever it does', () => {
    expect(runGroup(aRun({ open_blocks: 1 }))).toBe('needs');
    expect(runGroup(aRun({ open_blocks: 1, state: 'stopping' }))).toBe('needs');
  });
  it('does not ask for a decision about a run that is over', () => {
    expect(runGroup(aRun({ open_blocks: 1, state: 'failed', ended_at: '2026-12-01T10:00:00Z' }))).toBe('done');
  });
  it('has a group for every state', () => {
    const groups = Object.fromEntries(
      ['provisioning', 'running', 'stopping', 'review', 'merging', 'merged', 'no_changes', 'failed', 'cancelled', 'interrupted', 'discarded'].map((state) => [
        state,
        runWord({ state }).group,
      ]),
    );
    expect(groups).toEqual({
      provisioning: 'preparing', running: 'running', stopping: 'running', review: 'review', merging: 'review', merged: 'done',
      no_changes: 'done', failed: 'done', cancelled: 'done', interrupted: 'done', discarded: 'done',
    });
  });
  it('shows a state that it does not know by its tag and still finds a place for it', () => {
    expect(runWord({ state: 'hiber\u202enating' }).word).toBe('hiber⟦U+202E⟧nating');
    expect(runWord({ state: 'toString' }).word).toBe('toString');
    expect(runGroup(aRun({ state: 'hibernating' }))).toBe('running');
    expect(runGroup(aRun({ state: 'archived', ended_at: '2026-12-01T10:00:00Z' }))).toBe('done');
    expect(isLive(aRun({ state: 'hibernating' }))).toBe(true);
  });
});
