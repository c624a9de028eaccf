import { describe, expect, it } from 'vitest';
import { confirmWords, grouped, numbered, opensWords, primary } from './candidates';
import { fileView, sampleCandidates, sampleView } from './sample.fixture';

describe('the rules of a card', () => {
  it('offer the narrowest that lasts first', () => {
    expect(primary(sampleView())?.number).toBe(2);
    const onceOnly = sampleView({ candidates: sampleCandidates().slice(0, 1) });
    expect(primary(onceOnly)?.number).toBe(1);
    expect(primary(sampleView({ candidates: [] }))).toBeNull();
  });

  it('stand by scope, with the wider ones apart', () => {
    const { narrow, wider } = grouped(sampleCandidates());
    expect(narrow.map((candidate) => candidate.scope)).toEqual(['once', 'run', 'order', 'project']);
    expect(wider.map((candidate) => candidate.number)).toEqual([5]);
  });

  it('lose nothing when a scope has two rules', () => {
    const [, run] = sampleCandidates();
    if (run === undefined) throw new Error('no rule');
    const { narrow, wider } = grouped([run, { ...run, number: 9 }]);
    expect([...narrow, ...wider].map((candidate) => candidate.number)).toEqual([2, 9]);
  });

  it('say what else they open', () => {
    const wide = numbered(sampleView(), 5);
    if (wide === null) throw new Error('no rule');
    expect(opensWords(wide)).toEqual([
      'Every other name directly under registry.example on port 443',
      'Would also have allowed 3 earlier actions',
    ]);
    expect(confirmWords(wide)).toContain('every name of a pattern');
    expect(numbered(sampleView(), 77)).toBeNull();
  });

  it('are told apart for files as for hosts', () => {
    const { narrow, wider } = grouped(fileView().candidates);
    expect(narrow.map((candidate) => candidate.scope)).toEqual(['once', 'run']);
    expect(wider).toEqual([]);
    const folder = numbered(fileView(), 2);
    if (folder === null) throw new Error('no rule');
    expect(confirmWords(folder)).toContain('whole folder');
  });

  it('say why they ask a second time', () => {
    const [, , , project] = sampleCandidates();
    if (project === undefined) throw new Error('no rule');
    expect(confirmWords(project)).toContain('every run in this project');
    const bare = { ...project, scope: 'run', rule: { ...project.rule, host: { address: '192.0.2.7/32' } } } as const;
    expect(confirmWords(bare)).toContain('bare address');
  });
});
