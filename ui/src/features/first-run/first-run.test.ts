import { describe, expect, it } from 'vitest';
import type { BlockView, DoctorReport, RepoView, RunView, WallReport } from '@/ipc/bindings';
import { phaseOf, SAYS } from './coach';
import { needsFirstRun } from './needs';
import { byUrgency, doctorWords, isDoctorDone, repoFacts, trustWords } from './steps';

describe('needsFirstRun', () => {
  it('is for a window that nobody has used', () => {
    expect(needsFirstRun({ first_run_done: false }, 0)).toBe(true);
    expect(needsFirstRun({ first_run_done: true }, 0)).toBe(false);
    expect(needsFirstRun({ first_run_done: false }, new Map([['r', 1]]))).toBe(false);
    expect(needsFirstRun(null, 0)).toBe(false);
  });
});

const wall = (changes: Partial<WallReport>): WallReport => ({ wall: 'network', holds: true, required: true, detail: '', remedy: null, ...changes });
const report = (...walls: WallReport[]): DoctorReport => ({ tier: 'full', words: '', walls, bounds: [], notes: [] });

describe('doctor', () => {
  it('puts what stops every run first', () => {
    const walls = [wall({ wall: 'dns' }), wall({ wall: 'landlock', holds: false, required: false }), wall({ wall: 'mounts', holds: false })];
    expect(byUrgency(walls).map((one) => one.wall)).toEqual(['mounts', 'landlock', 'dns']);
  });
  it('is done when runs can start', () => {
    expect([null, report(wall({})), report(wall({ holds: false, required: false })), report(wall({ holds: false }))].map(isDoctorDone)).toEqual([false, true, true, false]);
    expect(doctorWords(report(wall({ holds: false }))).text).toBe('1 wall that every run needs does not hold here. No run starts until that is put right.');
    expect(doctorWords(report(wall({}))).tone).toBe('good');
  });
});

describe('a repository', () => {
  const plain = { branch: 'main', branches: [], submodules: [], lfs: false, sparse: false, hooks: [], size_bytes: 2048, commits: 3, dirty_files: 0, remote: null } as unknown as RepoView;
  it('is told by what matters to runs', () => {
    expect(repoFacts(plain).map((fact) => fact.label)).toEqual(['Branch', 'Size', 'Remote']);
    const odd = repoFacts({ ...plain, submodules: ['a'], lfs: true, sparse: true, hooks: ['pre-commit'], dirty_files: 2, branch: null });
    expect(odd.map((fact) => fact.label)).toEqual(['Branch', 'Size', 'Submodules', 'Large files', 'Sparse checkout', 'Hooks', 'Uncommitted', 'Remote']);
  });
  it('is trusted as it is now, or not', () => {
    expect([trustWords('absent'), trustWords('trusted')?.can, trustWords('untrusted')?.can, trustWords('changed')?.can]).toEqual([null, false, true, true]);
  });
});

describe('the coach', () => {
  const run = (changes: object): RunView => ({ id: 'r1', open_blocks: 0, subjects_allowed: 0, ...changes }) as RunView;
  const block = (state: string): BlockView => ({ id: 'r1-b1', state }) as BlockView;
  it('follows the run', () => {
    const seen = [
      phaseOf(run({ state: 'provisioning' }), []), phaseOf(run({ state: 'running' }), []), phaseOf(run({ state: 'running' }), [block('open')]),
      phaseOf(run({ state: 'running' }), [block('amended')]), phaseOf(run({ state: 'review' }), []), phaseOf(run({ state: 'merged' }), []), phaseOf(run({ state: 'failed' }), []),
    ];
    expect(seen).toEqual(['preparing', 'working', 'held', 'released', 'review', 'merged', 'otherwise']);
    expect(seen.every((phase) => SAYS[phase].text.endsWith('.'))).toBe(true);
  });
  it('looks at blocks of its own run only', () => {
    expect(phaseOf(run({ state: 'running', id: 'r2' }), [block('open')])).toBe('working');
  });
});
