import { describe, expect, it } from 'vitest';
import { canBeWritten, endWords, shownOf, toldWords } from './amendments';
import { sampleDecision } from './policy.fixture';

const NOW = Date.parse('2026-01-02T10:00:00Z');

describe('recorded decisions', () => {
  it('are those in force at first, everything when asked', () => {
    const denial = sampleDecision({ id: 'a', decision: 'deny', reason: 'no' } as never);
    const all = [sampleDecision(), sampleDecision({ id: 'b', state: 'revoked' }), denial];
    expect(shownOf(all, false).map((one) => one.id)).toEqual(['r7k2mqdx-a1']);
    expect(shownOf(all, true)).toHaveLength(3);
    expect(toldWords(denial)).toBe('no');
  });

  it('say when they end', () => {
    expect(endWords(sampleDecision(), NOW)).toBe('ends with its run');
    expect(endWords(sampleDecision({ scope: 'once' }), NOW)).toBe('ends when it is used');
    expect(endWords(sampleDecision({ scope: 'project' }), NOW)).toBe('never ends by itself');
    expect(endWords(sampleDecision({ expires: '2026-01-02T10:30:00Z' }), NOW)).toBe('ends in 30 min');
    expect(endWords(sampleDecision({ expires: '2026-01-02T09:30:00Z' }), NOW)).toBe('ended 30 min ago');
    expect(endWords(sampleDecision({ state: 'lapsed', scope: 'once' }), NOW)).toBe('used up');
    expect(endWords(sampleDecision({ state: 'revoked' }), NOW)).toBe('taken back');
  });

  it('go into the policy file only for the whole project, and once', () => {
    expect(canBeWritten(sampleDecision())).toBe(false);
    expect(canBeWritten(sampleDecision({ scope: 'project' }))).toBe(true);
    expect(canBeWritten(sampleDecision({ scope: 'project', project_written: true }))).toBe(false);
    expect(canBeWritten(sampleDecision({ scope: 'project', state: 'revoked' }))).toBe(false);
  });
});
