// The comments of a review as one message to the agent. Paths and quotes come from the run: they are quoted as
// visible text, so that nothing in them can pass for words of the operator.

import { count } from '@/lib/count';
import { oneLine, visibleLines } from '@/lib/text';
import type { Anchor, Comment } from './comments';

/** Longest message in bytes: a program is given it as one argument. */
export const LONGEST_MESSAGE = 120 * 1024;

/** A place as one writes it: `src/a.rs:42`, `src/a.rs:40 (before the change)`. */
export function placeOf(anchor: Anchor): string {
  const path = oneLine(anchor.path, 300);
  if (anchor.line === null) return path;
  return `${path}:${String(anchor.line)}${anchor.side === 'old' ? ' (before the change)' : ''}`;
}

function part(comment: Comment, number: number): string {
  const quote = comment.anchor.line === null ? '' : `> ${oneLine(comment.anchor.quote.trim(), 200)}\n`;
  return `${String(number)}. ${placeOf(comment.anchor)}\n${quote}${visibleLines(comment.text)}`;
}

/** In the order of the files, then of the lines. */
export function inOrder(comments: readonly Comment[]): Comment[] {
  return [...comments].sort((a, b) => {
    if (a.anchor.path !== b.anchor.path) return a.anchor.path < b.anchor.path ? -1 : 1;
    return (a.anchor.line ?? 0) - (b.anchor.line ?? 0);
  });
}

/** One message of all comments, with an opening and a closing sentence of the operator's where given. */
export function compose(comments: readonly Comment[], head: string, overall: string): string {
  const opening = `Your changes were reviewed at commit ${head.slice(0, 10)}: ${count(comments.length, 'comment')}.`;
  const said = overall.trim() === '' ? [] : [visibleLines(overall.trim())];
  const parts = inOrder(comments).map((comment, index) => part(comment, index + 1));
  return [opening, ...said, ...parts, 'Change the code accordingly and commit.'].join('\n\n');
}

/** Why a message cannot be sent; absent when it can. */
export function refusal(comments: readonly Comment[], overall: string, message: string): string | null {
  if (comments.length === 0 && overall.trim() === '') return 'Write a comment first: on a line, on a file, or on the whole.';
  const size = new TextEncoder().encode(message).length;
  return size > LONGEST_MESSAGE ? 'The message is longer than 120 KiB, which no program can be given. Shorten it.' : null;
}
