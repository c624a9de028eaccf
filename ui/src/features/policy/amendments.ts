// Recorded decisions as a list shows them.

import type { Amendment, AmendmentView } from '@/ipc/bindings';
import { millisOf, relative } from '@/lib/time';
import { visibleText } from '@/lib/text';
import { amendmentStateWords } from '@/features/blocks/words';

/** What is shown: amendments in force, or everything that was ever decided. */
export function shownOf<A extends Amendment>(all: readonly A[], everything: boolean): A[] {
  return all.filter((one) => everything || (one.state === 'active' && one.decision === 'allow'));
}

/** "Amended" or "Denied". */
export function decisionWord(amendment: Amendment): string {
  return amendment.decision === 'allow' ? 'Amended' : 'Denied';
}

/** What an agent was told by a denial; empty when nothing. */
export function toldWords(amendment: Amendment): string {
  return amendment.decision === 'deny' ? visibleText(amendment.reason) : '';
}

/** When an amendment ends or how it ended, in words. */
export function endWords(amendment: Amendment, now: number): string {
  if (amendment.state !== 'active') return amendmentStateWords(amendment);
  const { expires } = amendment;
  const at = millisOf(expires);
  if (at !== null) return `${at > now ? 'ends' : 'ended'} ${relative(expires, now)}`;
  switch (amendment.scope) {
    case 'once':
      return 'ends when it is used';
    case 'run':
      return 'ends with its run';
    case 'order':
    case 'project':
      return 'never ends by itself';
    default:
      return amendment.scope satisfies never;
  }
}

/** True when a decision can go into the repository's policy file. */
export function canBeWritten(amendment: AmendmentView): boolean {
  return (
    amendment.scope === 'project' &&
    amendment.decision === 'allow' &&
    amendment.state === 'active' &&
    !amendment.project_written
  );
}

/** What Revoke does, said before it is done. */
export const REVOKE_WORDS =
  'What is still to come under it is stopped, and open connections that only it allowed are cut. Bytes already sent and files already written stay.';
