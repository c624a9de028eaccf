// A run in review, its diff and its gate, for the tests of this folder.

import type { CheckResult, DiffFile, DiffView, GateSummary, RunState, RunView } from '@/ipc/bindings';

const HEAD = 'a'.repeat(40);
const BASE = 'b'.repeat(40);

export function sampleRun(state: Partial<RunView> & Partial<RunState> = {}): RunView {
  return {
    id: 'r7k2mqdx', order: 'o7k2mqdx', title: 'Fix the login', repo: '/home/me/app', repo_name: 'app',
    branch: 'foreman/r7k2mqdx', base_branch: 'main', base_commit: BASE, worktree: '/data/worktrees/r7k2mqdx',
    tier: 'Network held, files confined', open_blocks: 0, subjects_blocked: 0, subjects_allowed: 0,
    created_at: '2026-01-02T10:00:00Z', ended_at: '2026-01-02T10:05:00Z', last_event_at: '2026-01-02T10:05:00Z',
    last_seq: 40, outcome: { outcome: 'changes', head: HEAD, base: BASE, agent_succeeded: true }, checks: [],
    denied_unattended: false, changes: { files: 1, added: 1, removed: 1 }, behind: 0, revision: 1,
    state: 'review', head: HEAD, base: BASE, agent_succeeded: true,
    ...state,
  } as RunView;
}

export function sampleCheck(changes: Partial<CheckResult> = {}): CheckResult {
  return { command: 'make test', step: 'check', result: { result: 'succeeded' }, words: 'make test passed', tail: ['ok'], ...changes };
}

export function sampleGate(changes: Partial<GateSummary> = {}): GateSummary {
  return {
    amendments: [], open: [], denied: [], bounds: [], outside_scope: [], steering: [], submodules: [],
    checks: [sampleCheck()], base_moved: 0, queue: null, ...changes,
  };
}

export function sampleFile(path: string, changes: Partial<DiffFile> = {}): DiffFile {
  return { path, change: 'modified', added: 1, removed: 1, generated: false, flags: [], ...changes };
}

export function sampleDiff(changes: Partial<DiffView> = {}): DiffView {
  return {
    expect: 'e1', head: HEAD, base: BASE, files: [sampleFile('src/a.rs')], patch: '', truncated: false, flags: [],
    refusal: null, gate: sampleGate(), ...changes,
  };
}
