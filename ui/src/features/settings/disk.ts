/** What uses disk space, in words. Pure. */
import type { DiskKept, DiskReport, DiskRun } from '@/ipc/bindings';
import { count } from '@/lib/count';
import { oneLine } from '@/lib/text';

export function filesOf(run: DiskRun): number {
  return run.worktree_bytes + run.shadow_bytes + (run.home_bytes ?? 0);
}

/** Runs whose files may go now, the largest first. */
export function removable(report: DiskReport): DiskRun[] {
  return report.repositories
    .flatMap((repo) => repo.runs)
    .filter((run) => run.may_go)
    .sort((left, right) => filesOf(right) - filesOf(left));
}

/** Why a run's files stay, as a sentence without a final period. */
export function keptWords(kept: DiskKept): string {
  switch (kept.reason) {
    case 'live':
      return 'It goes on';
    case 'busy':
      return 'Something is at work in it';
    case 'recent':
      return 'It ended a short time ago';
    case 'undecided':
      return 'It waits for your review';
    case 'unlanded':
      return `${count(kept.commits, 'commit')} not in its base branch`;
    case 'dirty':
      return `${count(kept.files, 'uncommitted file')}`;
    case 'by_hand':
      return `Changed by hand: ${kept.what.map((what) => oneLine(what, 80)).join(', ')}`;
    case 'unknown':
      return `Not known what it holds: ${oneLine(kept.why, 160)}`;
    default: {
      const unknown: never = kept;
      return oneLine(JSON.stringify(unknown), 80);
    }
  }
}

/** Why a run's files are as they are. */
export function standing(run: DiskRun): string {
  if (run.removal) return run.removal.error ? `Could not be removed yet: ${oneLine(run.removal.error, 160)}` : 'Being removed';
  if (run.kept) return keptWords(run.kept);
  return run.may_go ? 'May go' : 'Gone';
}
