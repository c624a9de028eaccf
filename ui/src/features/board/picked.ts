/** What can be done with picked rows of the board at once, and what it would touch. Pure. */
import type { DiskKept, DiskReport, RunId } from '@/ipc/bindings';
import { count } from '@/lib/count';
import { isLive } from '@/lib/state';
import { oneLine } from '@/lib/text';
import type { BoardRow } from './groups';

export type Bulk = 'stop' | 'cancel' | 'discard';

/** Whether something can be done with a row. */
export function allows(bulk: Bulk, row: BoardRow): boolean {
  if (row.kind === 'order') return bulk === 'cancel';
  switch (bulk) {
    case 'stop':
      return isLive(row.run) && row.run.state !== 'stopping';
    case 'cancel':
      return false;
    case 'discard':
      return ['review', 'no_changes', 'failed', 'cancelled', 'interrupted', 'merged'].includes(row.run.state);
    default: {
      const unknown: never = bulk;
      return unknown;
    }
  }
}

export interface Flag {
  word: string;
  bad: boolean;
}

/** What speaks against removing a run's worktree, in words. */
export function flagsOf(kept: DiskKept | null): Flag[] {
  if (kept === null) return [];
  switch (kept.reason) {
    case 'dirty': {
      const first = kept.first.slice(0, 3).map((file) => oneLine(file, 60)).join(', ');
      return [{ word: `${count(kept.files, 'uncommitted file')}${first ? `: ${first}` : ''}`, bad: true }];
    }
    case 'unlanded':
      return [{ word: `${count(kept.commits, 'commit')} not in its base branch`, bad: true }];
    case 'undecided':
      return [{ word: 'Its result waits for your review', bad: true }];
    case 'by_hand':
      return [{ word: `Changed by hand: ${kept.what.map((what) => oneLine(what, 60)).join(', ')}`, bad: true }];
    case 'unknown':
      return [{ word: `Not known what it holds: ${oneLine(kept.why, 160)}`, bad: true }];
    case 'live':
      return [{ word: 'Its processes live', bad: true }];
    case 'busy':
      return [{ word: 'Something is at work in it', bad: true }];
    case 'recent':
      return [{ word: 'Ended a short time ago', bad: false }];
    default: {
      const unknown: never = kept;
      return [{ word: oneLine(JSON.stringify(unknown), 80), bad: true }];
    }
  }
}

/** What the disk report says of each run, by id. */
export function keptOf(report: DiskReport): ReadonlyMap<RunId, DiskKept | null> {
  return new Map(report.repositories.flatMap((repo) => repo.runs.map((run): [RunId, DiskKept | null] => [run.run, run.kept])));
}

export const BULK_WORDS: Readonly<Record<Bulk, { title: string; text: string; word: string; done: string }>> = {
  stop: {
    title: 'Stop runs',
    text: 'Each is asked to end, then interrupted, then ended. Its worktree and its commits stay.',
    word: 'Stop them',
    done: 'stopped',
  },
  cancel: {
    title: 'Cancel orders',
    text: 'They leave the queue and are not started. They stay in the list of finished orders.',
    word: 'Cancel them',
    done: 'cancelled',
  },
  discard: {
    title: 'Discard runs',
    text: 'Worktree and branch of each are removed, after a snapshot of commits, index and untracked files. Restore brings them back.',
    word: 'Discard them',
    done: 'discarded',
  },
};
