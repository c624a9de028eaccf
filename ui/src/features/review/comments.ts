// Comments of a review that were not sent: kept with the browser side of the window by run and head, so that
// nothing that was typed is lost by a reload, a move of the run or a crash.

import type { Side } from './patch';

/** What a comment is about: a line, or the whole file. */
export interface Anchor {
  readonly path: string;
  readonly side: Side | null;
  readonly line: number | null;
  /** The line as it was shown, for the message. */
  readonly quote: string;
}

export interface Comment {
  readonly id: string;
  readonly anchor: Anchor;
  readonly text: string;
  readonly at: string;
}

/** What was typed and not added yet. */
export interface Typing {
  readonly anchor: Anchor;
  readonly text: string;
  /** The comment that is being changed. */
  readonly id: string | null;
}

export interface Draft {
  readonly comments: readonly Comment[];
  readonly typing: Typing | null;
}

export type Keep = Pick<Storage, 'getItem' | 'setItem' | 'removeItem' | 'key' | 'length'>;

export const EMPTY: Draft = { comments: [], typing: null };
const PREFIX = 'sdf.review.';

function keyOf(run: string, head: string): string {
  return `${PREFIX}${run}.${head}`;
}

function isAnchor(value: unknown): value is Anchor {
  if (typeof value !== 'object' || value === null) return false;
  const { path, side, line, quote } = value as Record<string, unknown>;
  return (
    typeof path === 'string' && typeof quote === 'string' &&
    (side === null || side === 'old' || side === 'new') && (line === null || typeof line === 'number')
  );
}

function isComment(value: unknown): value is Comment {
  if (typeof value !== 'object' || value === null) return false;
  const { id, anchor, text, at } = value as Record<string, unknown>;
  return typeof id === 'string' && typeof text === 'string' && typeof at === 'string' && isAnchor(anchor);
}

/** A draft from text that somebody may have changed; what cannot be read counts as nothing. */
export function readDraft(text: string | null): Draft {
  if (text === null) return EMPTY;
  try {
    const { comments, typing } = JSON.parse(text) as { comments?: unknown; typing?: unknown };
    const open = typing as Partial<Typing> | null | undefined;
    return {
      comments: Array.isArray(comments) ? comments.filter(isComment) : [],
      typing: open && isAnchor(open.anchor) && typeof open.text === 'string' ? { anchor: open.anchor, text: open.text, id: open.id ?? null } : null,
    };
  } catch {
    return EMPTY;
  }
}

export function isEmpty(draft: Draft): boolean {
  return draft.comments.length === 0 && (draft.typing === null || draft.typing.text.trim() === '');
}

export function loadDraft(keep: Keep, run: string, head: string): Draft {
  return readDraft(keep.getItem(keyOf(run, head)));
}

/** Keeps a draft; says false when it could not be kept. */
export function saveDraft(keep: Keep, run: string, head: string, draft: Draft): boolean {
  try {
    if (isEmpty(draft)) keep.removeItem(keyOf(run, head));
    else keep.setItem(keyOf(run, head), JSON.stringify(draft));
    return true;
  } catch {
    return false;
  }
}

/** Drafts of other heads of the run: what was written before it moved. */
export function earlierDrafts(keep: Keep, run: string, head: string): { head: string; draft: Draft }[] {
  const found: { head: string; draft: Draft }[] = [];
  for (let index = 0; index < keep.length; index += 1) {
    const key = keep.key(index);
    if (!key?.startsWith(`${PREFIX}${run}.`) || key === keyOf(run, head)) continue;
    const draft = readDraft(keep.getItem(key));
    if (!isEmpty(draft)) found.push({ head: key.slice(PREFIX.length + run.length + 1), draft });
  }
  return found;
}

/** Takes the comments of earlier heads into this one's. Their lines may have moved; their quotes stay. */
export function withEarlier(draft: Draft, earlier: readonly { draft: Draft }[]): Draft {
  const known = new Set(draft.comments.map((comment) => comment.id));
  const more = earlier.flatMap((one) => one.draft.comments).filter((comment) => !known.has(comment.id));
  const typing = draft.typing ?? earlier.find((one) => one.draft.typing)?.draft.typing ?? null;
  return { comments: [...more, ...draft.comments], typing };
}

/** Adds what was typed, or puts it in the place of the comment that was changed. Blank text changes nothing. */
export function withTyped(draft: Draft, id: string, at: string): Draft {
  const { typing } = draft;
  const text = typing?.text.trim() ?? '';
  if (!typing || text === '') return { ...draft, typing: null };
  const changed = draft.comments.find((comment) => comment.id === typing.id);
  const comments = changed
    ? draft.comments.map((comment) => (comment === changed ? { ...comment, text } : comment))
    : [...draft.comments, { id, anchor: typing.anchor, text, at }];
  return { comments, typing: null };
}

export function without(draft: Draft, id: string): Draft {
  return { ...draft, comments: draft.comments.filter((comment) => comment.id !== id) };
}
