// What the demo says while it happens: what is seen, why, and what to click next.

import type { BlockView, RunView } from '@/ipc/bindings';

export type Phase = 'preparing' | 'working' | 'held' | 'released' | 'review' | 'merged' | 'otherwise';

/** Where the demo's run is. */
export function phaseOf(run: RunView, blocks: readonly BlockView[]): Phase {
  const mine = blocks.filter((block) => block.id.startsWith(`${run.id}-`));
  switch (run.state) {
    case 'provisioning': return 'preparing';
    case 'running':
      if (mine.some((block) => block.state === 'open') || run.open_blocks > 0) return 'held';
      return (run.subjects_allowed ?? 0) > 0 || mine.some((block) => block.state === 'amended') ? 'released' : 'working';
    case 'review':
    case 'merging': return 'review';
    case 'merged': return 'merged';
    case 'stopping':
    case 'no_changes':
    case 'failed':
    case 'cancelled':
    case 'interrupted':
    case 'discarded': return 'otherwise';
    default: return 'otherwise';
  }
}

export interface Say {
  readonly title: string;
  readonly text: string;
  /** The tab of the run on which it goes on; absent where any will do. */
  readonly tab: 'feed' | 'blocks' | 'changes' | null;
  readonly go: string | null;
}

export const SAYS: Readonly<Record<Phase, Say>> = {
  preparing: { title: 'Getting ready', text: 'The run gets a worktree of its own and a cage around it. Each wall is tried first: one that does not hold stops the run.', tab: null, go: null },
  working: { title: 'The agent works', text: 'It sees the system read-only and none of your files. What it prints is in the feed.', tab: 'feed', go: 'See the feed' },
  held: { title: 'Held: the agent waits', text: 'It reached for a host that no rule allows. It did not fail: the connection waits, and nothing has left the cage, not even the name. Read the card, then click Amend.', tab: 'blocks', go: 'Go to the card' },
  released: { title: 'Going on', text: 'The very connection that waited goes on. The agent saw a slow connect and no error. The rule ends with this run, and you can take it back at any time.', tab: 'feed', go: 'See the feed' },
  review: { title: 'Your turn', text: 'The run is over and nothing has reached the branch. Open Changes: see what it did and what the gate found, then click Merge.', tab: 'changes', go: 'Go to Changes' },
  merged: { title: 'That was all of it', text: 'Held, amended, reviewed, merged. Your own repositories work the same way.', tab: null, go: null },
  otherwise: { title: 'It ended in another way', text: 'That is fine, too: nothing of the demo stays. Leave it, or start it once more from First run.', tab: null, go: null },
};
