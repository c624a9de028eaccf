/** Well-formed views for tests. */
import type { BlockView, OrderView, QueueView, RunView } from '@/ipc/bindings';

export function aRun(some: Record<string, unknown> = {}): RunView {
  return {
    id: 'rone',
    order: 'oone',
    title: 'Update the parser',
    repo: '/code/parser',
    branch: 'foreman/rone',
    base_branch: 'main',
    base_commit: '1a2b3c4d5e6f',
    worktree: '/worktrees/rone',
    tier: 'Network held, files confined',
    open_blocks: 0,
    created_at: '2026-12-01T10:00:00Z',
    ended_at: null,
    last_seq: 10,
    outcome: null,
    checks: [],
    denied_unattended: false,
    state: 'running',
    step: 'agent',
    ...some,
  } as RunView;
}

export function aBlock(some: Record<string, unknown> = {}): BlockView {
  return {
    id: 'rone-b1',
    title: 'Update the parser',
    expect: 'token',
    candidates: [],
    decided: null,
    subject: { type: 'egress', protocol: 'tcp', host: { name: 'registry.example' }, port: 443 },
    why: 'no rule matches',
    address_vetted: true,
    waiting: 1,
    seen: 1,
    last_hold: 1,
    revision: 1,
    first_at: '2026-12-01T10:00:00Z',
    last_at: '2026-12-01T10:00:00Z',
    holders: [],
    state: 'open',
    ...some,
  } as BlockView;
}

export function anOrder(some: Record<string, unknown> = {}): OrderView {
  return {
    id: 'oone',
    title: 'Fix the docs',
    wait: null,
    repo: '/code/site',
    base: 'main',
    argv: ['agent'],
    prompt: null,
    hints: {},
    scope: null,
    depends_on: [],
    parent: null,
    gate: 'review',
    checks: [],
    group: null,
    attempts: 0,
    schedule: null,
    next_slot: null,
    source: null,
    created_at: '2026-12-01T10:00:00Z',
    last_run: null,
    runs: [],
    state: 'queued',
    ...some,
  } as OrderView;
}

export function aQueue(some: Partial<QueueView> = {}): QueueView {
  return { dispatching: true, waiting: 0, paused: false, paused_repos: [], limits: {}, wall_used_seconds: 0, watched: [], ...some };
}
