import type { SyncOutcome } from '@/ipc/bindings';
import { count } from '@/lib/count';
import type { Tone } from '@/lib/state';

/** How a sync ended, in words; files of a conflict are listed by the caller. */
export function syncWords(outcome: SyncOutcome, base: string): { tone: Tone; text: string; paths: readonly string[] } {
  switch (outcome.sync) {
    case 'up_to_date':
      return { tone: 'good', text: `It builds on ${base} as it is now. Checks that had not run for this commit were run.`, paths: [] };
    case 'synced': {
      const how = outcome.replayed ? `Its commits were replayed onto ${base}` : `It was merged with ${base}`;
      const dropped = outcome.dropped > 0 ? ` ${count(outcome.dropped, 'commit')} had its changes there already and went.` : '';
      const same = outcome.same_changes ? ' It adds and removes exactly what it did before.' : ' It changes something else than before: look at it again.';
      return { tone: outcome.same_changes ? 'good' : 'warn', text: `${how}.${dropped}${same}`, paths: [] };
    }
    case 'conflict':
      return { tone: 'bad', text: `It and ${base} changed the same places. Nothing was moved. Send the agent a comment, or settle it in the worktree.`, paths: outcome.paths };
    default:
      return unknown(outcome);
  }
}

function unknown(_: never): { tone: Tone; text: string; paths: readonly string[] } {
  return { tone: 'warn', text: 'It was synced in a way that this window does not know. Look at the changes again.', paths: [] };
}
