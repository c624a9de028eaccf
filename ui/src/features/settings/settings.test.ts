import { describe, expect, it } from 'vitest';
import type { DiskReport, DiskRun } from '@/ipc/bindings';
import { aQueue } from '@/lib/samples.fixture';
import { awakeWords } from './awake';
import { keptWords, removable, standing } from './disk';
import { changeOf, formOf } from './limits';
import { trustWord } from './trust';

describe('limits of the queue', () => {
  const before = formOf(aQueue({ limits: { total: 4, budgets: { wall_seconds: 5400, window_seconds: 86_400 } } }));
  it('shows caps and budgets as one types them', () => {
    expect(before).toEqual({ total: '4', perRepository: '', wallHours: '1.5', windowHours: '24' });
    expect(formOf(null).total).toBe('');
  });
  it('changes only what was touched, and takes a cap away by nothing', () => {
    expect(changeOf({ ...before, total: '', perRepository: '2' }, before)).toEqual({ change: { total: 0, per_repository: 2 } });
    expect(changeOf(before, before)).toEqual({ change: {} });
  });
  it('says what is wrong by field', () => {
    expect(changeOf({ ...before, total: '1.5', wallHours: '-1' }, before)).toEqual({
      errors: { total: 'A whole number above 0, or nothing for no cap', wallHours: 'A number above 0, or nothing for no cap' },
    });
  });
});

describe('disk', () => {
  const run = (some: Partial<DiskRun>): DiskRun => ({
    run: 'r', title: 't', state: { state: 'no_changes' }, ended_at: null, worktree_bytes: 1, shadow_bytes: 1, home_bytes: 0, record_bytes: 1, kept: null, may_go: false, removal: null, ...some,
  });
  it('offers only what may go, the largest first', () => {
    const runs = [run({ run: 'a', may_go: true }), run({ run: 'b', kept: { reason: 'undecided' } }), run({ run: 'c', may_go: true, worktree_bytes: 9 })];
    const report = { repositories: [{ repo: '/x', bytes: 1, runs }] } as unknown as DiskReport;
    expect(removable(report).map(({ run }) => run)).toEqual(['c', 'a']);
  });
  it('says why files stay, and that unknown is a reason', () => {
    expect(keptWords({ reason: 'unknown', why: 'git does not answer' })).toBe('Not known what it holds: git does not answer');
    expect(standing(run({ removal: { asked_at: '', tries: 2, error: 'a file is in use' } }))).toBe('Could not be removed yet: a file is in use');
    expect([standing(run({})), standing(run({ may_go: true }))]).toEqual(['Gone', 'May go']);
  });
});

describe('trust', () => {
  it('does not call unknown trusted', () => {
    expect(trustWord(null).word).toBe('Not known');
    expect(trustWord('changed')).toMatchObject({ tone: 'warn', there: true });
    expect(trustWord('novel').word).toBe('novel');
  });
});

describe('keep awake', () => {
  it('says it in a whole sentence', () => {
    expect(awakeWords('held off, because a run is at work')).toBe('Sleep is held off, because a run is at work');
    expect(awakeWords('cannot be held off on this machine (no bus)')).toBe('Sleep cannot be held off on this machine (no bus)');
  });
});
