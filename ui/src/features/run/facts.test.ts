import { expect, it } from 'vitest';
import type { RunView } from '@/ipc/bindings';
import { elapsed, factsOf } from './facts';

const RUN = {
  repo_name: 'shop\u202e',
  repo: '/srv/shop',
  branch: 'foreman/r7k2mqdx',
  base_branch: 'main',
  base_commit: '0123456789abcdef',
  behind: 3,
  revision: 12,
  tier: 'Network held, files confined',
  created_at: '2026-03-01T10:00:00Z',
  ended_at: null,
} as unknown as RunView;
const NOW = Date.parse('2026-03-01T10:04:10Z');
const told = (run: RunView): Record<string, string> => Object.fromEntries(factsOf(run, NOW).map((fact) => [fact.label, fact.text]));

it('tells a run in words', () => {
  expect(told(RUN)).toEqual({
    Repository: 'shop⟦U+202E⟧',
    Branch: 'foreman/r7k2mqdx',
    Base: '0123456789 of main',
    Behind: '3 commits',
    'Running for': '4 min 10 s',
    Isolation: 'Network held, files confined',
    Policy: 'revision 12',
  });
});

it('does not make up what is not known', () => {
  expect(told({ ...RUN, behind: null })['Behind']).toBe('not known');
  expect(told({ ...RUN, behind: 0 })['Behind']).toBe('up to date');
  expect(elapsed({ created_at: 'x', ended_at: null }, NOW)).toBe('unknown');
  expect(told({ ...RUN, ended_at: '2026-03-01T10:01:00Z' })['Took']).toBe('1 min');
});
