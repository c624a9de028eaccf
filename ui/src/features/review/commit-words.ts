// How a commit of a run reads in a list. What it says of itself is the run's to choose.

import type { CommitView } from '@/ipc/bindings';
import { count, figure } from '@/lib/count';
import { oneLine } from '@/lib/text';

const LONGEST = 200;

/** Its subject, on one line; words for none. */
export function subjectOf(commit: CommitView): string {
  return oneLine(commit.subject, LONGEST).trim() || '(no message)';
}

/** "1 file, +3 −0"; without lines where they were not counted. */
export function figuresOf({ files, added, removed }: CommitView): string {
  const lines = added === null || removed === null ? 'lines not counted' : `+${figure(added)} −${figure(removed)}`;
  return `${count(files, 'file')}, ${lines}`;
}
