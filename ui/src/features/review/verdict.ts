// What can be done with a run's changes now, and why not where it cannot.

import type { DiffView, MergeEntry, RunView } from '@/ipc/bindings';
import { count } from '@/lib/count';
import { isLive } from '@/lib/state';
import { isUnderWay, notPassed } from './gate-words';

/** Absent: it can be done. Else why not, as a sentence. */
export type Reason = string | null;

export interface Verdict {
  readonly merge: Reason;
  /** Why a merge cannot even be asked for, with the words that it needs. */
  readonly askMerge: Reason;
  readonly queue: Reason;
  readonly sync: Reason;
  readonly discard: Reason;
  readonly restore: Reason;
  readonly send: Reason;
  readonly push: Reason;
  /** Checks did not pass and nothing else is in the way: a merge needs a written reason. */
  readonly despite: boolean;
  /** Its commits hold a secret, or that cannot be told: a merge needs an explicit word. */
  readonly secret: boolean;
}

export interface Seen {
  readonly run: RunView;
  /** The whole diff as it was shown; absent until it is read. */
  readonly diff: DiffView | null;
  readonly entry: MergeEntry | null;
  /** What this window is doing with the run now, as a sentence. */
  readonly doing: string | null;
}

/** Why there is nothing to merge in this state; absent in review. */
function notInReview(run: RunView): Reason {
  switch (run.state) {
    case 'review': return null;
    case 'provisioning':
    case 'running': return 'The run is still at work. Its changes are collected when it ends.';
    case 'stopping': return 'The run is being stopped. Its changes are collected when it has ended.';
    case 'merging': return 'It is being merged.';
    case 'merged': return 'It is merged already.';
    case 'no_changes': return 'The run ended without commits, so there is nothing to merge.';
    case 'failed': return 'The run failed and left nothing to merge.';
    case 'cancelled': return `The run was stopped before it was done. To take over what it had, merge ${run.branch} by hand.`;
    case 'interrupted': return 'The run was lost before it came to its end.';
    case 'discarded': return 'The run is discarded. Restore it first.';
    default: return 'This window does not know the state of the run.';
  }
}

/** Words of the engine as a sentence by itself. */
export function asSentence(text: string): string {
  const whole = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.?]$/.test(whole) ? whole : `${whole}.`;
}

function discardReason(run: RunView): Reason {
  if (isLive(run)) return 'The run is still at work. Stop it first.';
  if (run.state === 'discarded') return 'It is discarded already.';
  return run.state === 'merging' ? 'It is being merged.' : null;
}

export function verdictOf({ run, diff, entry, doing }: Seen): Verdict {
  const queued = isUnderWay(entry) ? 'It is in the merge queue. Wait for it.' : null;
  const away = run.repo_reachable === false ? 'Its repository is not where it was. Put it back first.' : null;
  const common = doing ?? away ?? queued;
  const review = notInReview(run);
  const ready = review ?? common ?? (diff ? null : 'Its changes are being read.');
  const moved = diff?.gate?.base_moved ?? 0;
  const failed = notPassed(diff?.gate?.checks ?? []);
  const mayAnyway = ready === null && moved === 0;
  const despite = mayAnyway && failed.length > 0 && diff?.refused_for === 'checks';
  const secret = mayAnyway && diff?.refused_for === 'secret';
  const behind = moved > 0 ? `${run.base_branch} has ${count(moved, 'commit')} that it does not build on. Sync and re-check, or merge by the queue.` : null;
  const refused = diff?.refusal ? asSentence(diff.refusal) : null;
  const merge = ready ?? behind ?? refused;
  return {
    merge,
    askMerge: despite || secret ? null : merge,
    queue: ready ?? (moved === 0 && refused !== null && !despite && !secret ? refused : null),
    sync: review ?? common,
    discard: common ?? discardReason(run),
    restore: common ?? (run.state === 'discarded' ? null : 'It is not discarded.'),
    send: doing ?? queued ?? (run.state === 'review' ? null : 'Comments can be sent while the run waits for a review.'),
    push: ready,
    despite,
    secret,
  };
}

/** What a state without changes to show says, and what can be done. */
export interface Standing {
  readonly title: string;
  readonly text: string;
}

/** Words over the tab for a run that does not wait for a review; absent in review. */
export function standingOf(run: RunView): Standing | null {
  switch (run.state) {
    case 'review': return null;
    case 'provisioning':
    case 'running':
    case 'stopping': return { title: 'Still at work', text: 'Changes are collected and checked when the run ends. Until then its worktree is the place to look.' };
    case 'merging': return { title: 'Being merged', text: `${run.base_branch} is moved to what was approved.` };
    case 'merged': return { title: 'Merged', text: `${run.base_branch} is at ${run.commit.slice(0, 10)}. Its worktree can go: Discard keeps a snapshot.` };
    case 'no_changes': return { title: 'No changes', text: 'The run ended cleanly and made no commit. There is nothing to review.' };
    case 'failed': return { title: 'Failed', text: `${asSentence(run.reason.message)} Its worktree is kept until you discard it.` };
    case 'cancelled': return { title: 'Cancelled', text: 'The run was stopped. What it had committed by then is shown below, where there is any; it is not merged from here.' };
    case 'interrupted': return { title: 'Interrupted', text: `${asSentence(run.reason.message)} Its worktree is kept until you discard it.` };
    case 'discarded': return { title: 'Discarded', text: `Worktree and branch are gone. The snapshot ${run.snapshot} keeps all of it; Restore brings it back.` };
    default: return { title: 'Unknown', text: 'The run is in a state that this window does not know. The engine may be newer than the window.' };
  }
}

/** Whether there can be a diff at all. */
export function mayHaveChanges(run: RunView): boolean {
  if (isLive(run)) return false;
  return run.outcome?.outcome === 'changes' || run.state === 'cancelled' || run.state === 'failed' || run.state === 'interrupted';
}
