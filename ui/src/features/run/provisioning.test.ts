import { describe, expect, it } from 'vitest';
import type { Event, EventKind } from '@/ipc/bindings';
import { event } from '@/features/feed/events.fixture';
import { MOST_LINES, NOTHING_YET, withEvent } from './provisioning';
import type { Provisioning } from './provisioning';

const told = (...kinds: EventKind[]): Provisioning =>
  kinds.map((kind, index): Event => event(kind, index + 1)).reduce(withEvent, NOTHING_YET);
const short = (all: Provisioning): string[] => all.stages.map((stage) => `${stage.title}: ${stage.word}`);

const BEGIN: EventKind[] = [
  { kind: 'state', to: { state: 'provisioning' } },
  { kind: 'progress', stage: 'base', message: 'from main' },
  { kind: 'progress', stage: 'worktree', message: 'made' },
  { kind: 'probe', wall: 'network', holds: true, detail: 'refused' },
];

describe('provisioning', () => {
  it('lists stages in the order in which they were told', () => {
    const all = told(...BEGIN, { kind: 'step_started', what: 'setup', argv: ['sh', '-c', 'make'] });
    expect(short(all)).toEqual(['Base branch: done', 'Worktree: done', 'Walls: hold', 'Setup: running']);
    expect(all.isOver).toBe(false);
  });

  it('ends with the first step of the agent, and takes nothing after it', () => {
    const all = told(
      ...BEGIN,
      { kind: 'step_started', what: 'setup', argv: ['make'] },
      { kind: 'output', stream: 'stdout', text: '\u001b[32mok\u001b[0m\u202e\n' },
      { kind: 'step_ended', millis: 1_000, result: 'succeeded' },
      { kind: 'step_started', what: 'agent', argv: ['agent'] },
      { kind: 'output', stream: 'stdout', text: 'the agent speaks' },
    );
    expect(all.isOver).toBe(true);
    expect(all.stages.at(-1)).toMatchObject({
      title: 'Setup',
      word: 'done',
      lines: ['make', 'ok⟦U+202E⟧', 'The command ended well after 1 s.'],
    });
  });

  it('keeps what went wrong', () => {
    const failed = told(
      ...BEGIN,
      { kind: 'step_started', what: 'setup', argv: ['make'] },
      { kind: 'step_ended', millis: 5, result: 'exited', code: 2 },
      { kind: 'state', to: { state: 'failed', reason: { reason: 'setup', message: 'it ended with exit code 2' } } },
    );
    expect(failed.stages.at(-1)).toMatchObject({ word: 'failed', tone: 'bad' });
    const cut = told(...BEGIN.slice(0, 2), { kind: 'state', to: { state: 'failed', reason: { reason: 'provision', message: 'no' } } });
    expect(short(cut)).toEqual(['Base branch: did not finish']);
    const open = told(...BEGIN, { kind: 'probe', wall: 'landlock', holds: false, detail: 'none here' }, { kind: 'probe', wall: 'git', holds: true, detail: 'x' });
    expect(open.stages.at(-1)).toMatchObject({ tone: 'bad', word: 'one does not hold' });
  });

  it('keeps a bounded number of lines of a setup that says much', () => {
    const lines = Array.from({ length: 1_000 }, (_, n): EventKind => ({ kind: 'output', stream: 'stdout', text: `line ${n}` }));
    const all = told({ kind: 'step_started', what: 'setup', argv: ['make'] }, ...lines);
    expect(all.stages[0]?.lines).toHaveLength(MOST_LINES);
    expect(all.stages[0]?.left).toBe(1_001 - MOST_LINES);
    expect(all.stages[0]?.lines.at(-1)).toBe('line 999');
  });

  it('does not take the announcement of the setup for its start', () => {
    const all = told({ kind: 'progress', stage: 'setup', message: 'the setup command is the one of x: make' }, ...BEGIN, {
      kind: 'step_started',
      what: 'setup',
      argv: ['make'],
    });
    expect(short(all)).toEqual(['Setup command: known', 'Base branch: done', 'Worktree: done', 'Walls: hold', 'Setup: running']);
  });
});
