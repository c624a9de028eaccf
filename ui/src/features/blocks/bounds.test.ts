import { describe, expect, it } from 'vitest';
import { runOfBlock } from '@/live/plan';
import * as bounds from './bounds';
import { confirmWords, grouped, numbered, primary } from './candidates';
import { isSameQuestion } from './card';
import { expiriesFor } from './expiry';
import { memoryView, processesView, sampleView } from './sample.fixture';

describe('figures of bounds', () => {
  it('read as those of the engine', () => {
    expect(bounds.figureWords('wall', 5_400_000)).toBe('1 hour 30 minutes');
    expect(bounds.figureWords('wall', 1)).toBe('1 second');
    expect(bounds.figureWords('wall', 0)).toBe('0 seconds');
    expect(bounds.figureWords('memory', 6 * 2 ** 30)).toBe('6 GiB');
    expect(bounds.figureWords('disk', 1.5 * 2 ** 40)).toBe('1.5 TiB');
    expect(bounds.figureWords('output', 12)).toBe('12 bytes');
    expect(bounds.figureWords('cpu', 2_500)).toBe('2.5 processors');
    expect(bounds.figureWords('cpu', 1_000)).toBe('1 processor');
    expect(bounds.figureWords('processes', 1)).toBe('1 process');
    expect(bounds.figureWords('open_files', 4096)).toBe('4096 open files');
  });

  it('never say that a bound was reached which was not', () => {
    expect(bounds.figureWords('memory', 4 * 2 ** 30 - 1)).toBe('3.9 GiB');
  });

  it('say what was used of the bound, and by how much it was over', () => {
    const memory = { bound: 'memory', limit: 4 * 2 ** 30, seen: 4.25 * 2 ** 30 } as const;
    expect(bounds.breachWords(memory)).toBe('4.2 GiB of 4 GiB');
    expect(bounds.overWords(memory)).toBe('256 MiB');
    expect(bounds.overWords({ ...memory, seen: memory.limit })).toBeNull();
    expect(bounds.breachWords({ bound: 'wall', limit: 7_200_000, seen: 7_200_004 })).toBe('2 hours');
    expect(bounds.overWords({ bound: 'wall', limit: 7_200_000, seen: 7_200_004 })).toBeNull();
    expect(bounds.breachWords({ bound: 'open_files', limit: 64, seen: 64 })).toBe('64 of 64 open files');
  });

  it('name a bound that is not known as it came, with its hidden characters as marks', () => {
    expect(bounds.boundName('open_files')).toBe('open files');
    expect(bounds.boundName('warp_\u202ecores')).toBe('warp ⟦U+202E⟧cores');
  });
});

describe('the rules of a bound', () => {
  it('are said in few words on the button', () => {
    const words = memoryView().candidates.map((one) => bounds.raiseWords(one));
    expect(words).toEqual([
      'Raise memory to 6 GiB for this run',
      'Raise memory to 8 GiB for this run',
      'Raise memory to 8 GiB for every run of this work order',
      'Raise memory to 8 GiB for every run in this project',
    ]);
    // What is written on the button is how the engine's own words begin.
    for (const [at, { words: full }] of memoryView().candidates.entries()) expect(full.startsWith(words[at] ?? '?')).toBe(true);
    expect(sampleView().candidates.map((one) => bounds.raiseWords(one))).toEqual([null, null, null, null, null]);
  });

  it('stand in one group, have no end of their own, and say why they ask again', () => {
    const { narrow, wider } = grouped(memoryView().candidates);
    expect([narrow.map((rule) => rule.number), wider]).toEqual([[1, 2, 3, 4], []]);
    for (const rule of narrow) expect(expiriesFor(rule)).toEqual(['end']);
    const project = numbered(memoryView(), 4);
    expect(project && confirmWords(project)).toContain('every run in this project');
  });

  it('offer only what helps a run that does not wait any more', () => {
    expect(primary(memoryView())?.number).toBe(1);
    expect(primary(memoryView({ state: 'expired', waiting: 0 }))?.number).toBe(3);
    expect(primary(processesView())?.number).toBe(1);
    expect(bounds.offered(memoryView({ state: 'gone' })).map((rule) => rule.scope)).toEqual(['order', 'project']);
  });

  it('are another question once the bound is another', () => {
    const view = memoryView();
    const breach = { bound: 'memory', limit: 2 ** 30, seen: 2 ** 30 } as const;
    expect(isSameQuestion(view, memoryView({ seen: 2 }))).toBe(true);
    expect(isSameQuestion(view, memoryView({ breach }))).toBe(false);
  });
});

describe('the board', () => {
  it('says at which bound a run is paused', () => {
    const gone = memoryView({ id: 'rgone-b1', state: 'gone' });
    const paused = bounds.pausedRuns([sampleView(), memoryView({ id: 'rone-b2' }), processesView({ id: 'rtwo-b1' }), gone], runOfBlock);
    expect([...paused]).toEqual([['rone', 'paused at its memory bound']]);
  });
});
