/** Saying something to a run's agent, in words. Pure. */
import type { BlockView, SaidHow } from '@/ipc/bindings';
import { subjectWords } from '@/features/blocks/words';
import { oneLine } from '@/lib/text';

/** What became of what was said, as a sentence. */
export const SAID: Readonly<Record<SaidHow, string>> = {
  waits: 'The agent is given it when its turn ends; the run goes on until then.',
  resumes: 'A new run goes on from those commits with it, in the agent’s own session.',
  afresh: 'A new run goes on from those commits with it. Its agent starts afresh, and knows nothing of what was said before.',
};

/** What a decision about a block leaves to be said to the agent; null where it is nothing. */
function ofBlock(view: BlockView): string | null {
  const what = oneLine(subjectWords(view.subject), 200);
  if (view.state === 'denied') return view.reason === '' ? null : `${what} was denied: ${view.reason}`;
  return view.state === 'amended' ? `${what} is allowed now. Try again.` : null;
}

/** A proposal of what to say, from the newest decision about one of these blocks. */
export function proposal(blocks: Iterable<BlockView>): string | null {
  const newest = [...blocks].sort((a, b) => b.last_at.localeCompare(a.last_at));
  for (const view of newest) {
    const words = ofBlock(view);
    if (words !== null) return words;
  }
  return null;
}
