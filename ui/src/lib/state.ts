import type { RunState, RunView } from '@/ipc/bindings';
import { oneLine } from './text';

/** Colour of a mark. There is always a word beside it. */
export type Tone = 'good' | 'warn' | 'bad' | 'busy' | 'idle' | 'accent';

/** Where a run or order stands on the board. */
export type Group = 'needs' | 'running' | 'preparing' | 'queued' | 'review' | 'done';

export const GROUPS: readonly Group[] = ['needs', 'running', 'preparing', 'queued', 'review', 'done'];

export const GROUP_WORDS: Readonly<Record<Group, string>> = {
  needs: 'Needs you',
  running: 'Running',
  preparing: 'Preparing',
  queued: 'Queued',
  review: 'Review',
  done: 'Done',
};

/** A state as it is shown. */
export interface StateWord {
  word: string;
  tone: Tone;
  group: Group;
}

const WORDS: Readonly<Record<RunState['state'], StateWord>> = {
  provisioning: { word: 'Preparing', tone: 'busy', group: 'preparing' },
  running: { word: 'Running', tone: 'busy', group: 'running' },
  stopping: { word: 'Stopping', tone: 'warn', group: 'running' },
  review: { word: 'Review', tone: 'accent', group: 'review' },
  merging: { word: 'Merging', tone: 'busy', group: 'review' },
  merged: { word: 'Merged', tone: 'good', group: 'done' },
  no_changes: { word: 'No changes', tone: 'idle', group: 'done' },
  failed: { word: 'Failed', tone: 'bad', group: 'done' },
  cancelled: { word: 'Cancelled', tone: 'idle', group: 'done' },
  interrupted: { word: 'Interrupted', tone: 'warn', group: 'done' },
  discarded: { word: 'Discarded', tone: 'idle', group: 'done' },
};

function isKnown(tag: string): tag is RunState['state'] {
  return Object.hasOwn(WORDS, tag);
}

/** Word, colour and group of a state. A state that this window does not know is shown by its tag. */
export function runWord(state: { state: string }): StateWord {
  return isKnown(state.state)
    ? WORDS[state.state]
    : { word: oneLine(state.state, 40) || 'Unknown', tone: 'warn', group: 'running' };
}

/** Whether processes of the run may be alive. */
export function isLive(run: { state: string; ended_at?: string | null }): boolean {
  if (!isKnown(run.state)) return (run.ended_at ?? null) === null;
  const { group } = WORDS[run.state];
  return group === 'preparing' || group === 'running';
}

/** Group of a run: with open blocks it needs the operator, whatever it is doing. */
export function runGroup(run: RunView): Group {
  if (run.open_blocks > 0 && isLive(run)) return 'needs';
  if (!isKnown(run.state) && run.ended_at !== null) return 'done';
  return runWord(run).group;
}
