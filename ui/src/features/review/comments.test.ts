import { beforeEach, describe, expect, it } from 'vitest';
import { earlierDrafts, EMPTY, loadDraft, readDraft, saveDraft, without, withEarlier, withTyped } from './comments';
import type { Anchor, Draft } from './comments';

const anchor: Anchor = { path: 'a.rs', side: 'new', line: 3, quote: 'x' };
const draft: Draft = { comments: [{ id: '1', anchor, text: 'why', at: 't' }], typing: { anchor, text: 'half', id: null } };

describe('drafts', () => {
  beforeEach(() => localStorage.clear());

  it('are kept by run and head, with what is half typed', () => {
    saveDraft(localStorage, 'r1', 'aaa', draft);
    expect(loadDraft(localStorage, 'r1', 'aaa')).toEqual(draft);
    expect(loadDraft(localStorage, 'r1', 'bbb')).toEqual(EMPTY);
    expect(loadDraft(localStorage, 'r2', 'aaa')).toEqual(EMPTY);
  });

  it('leave nothing behind once empty', () => {
    saveDraft(localStorage, 'r1', 'aaa', draft);
    saveDraft(localStorage, 'r1', 'aaa', EMPTY);
    expect(localStorage.length).toBe(0);
  });

  it('of an earlier head are found and taken over once', () => {
    saveDraft(localStorage, 'r1', 'aaa', draft);
    saveDraft(localStorage, 'r11', 'aaa', draft);
    const earlier = earlierDrafts(localStorage, 'r1', 'bbb');
    expect(earlier.map((one) => one.head)).toEqual(['aaa']);
    const taken = withEarlier(EMPTY, earlier);
    expect(taken).toEqual(draft);
    expect(withEarlier(taken, earlier).comments).toHaveLength(1);
  });

  it('that are damaged count as nothing', () => {
    expect(readDraft('{')).toEqual(EMPTY);
    expect(readDraft('{"comments":[{"id":1}],"typing":{"anchor":{}}}')).toEqual(EMPTY);
    expect(readDraft('{"comments":"x"}')).toEqual(EMPTY);
  });

  it('say when they cannot be kept', () => {
    const full = { ...localStorage, setItem: () => { throw new Error('full'); } } as unknown as Storage;
    expect(saveDraft(full, 'r1', 'aaa', draft)).toBe(false);
  });
});

describe('what was typed', () => {
  it('is added, trimmed', () => {
    const added = withTyped({ ...EMPTY, typing: { anchor, text: ' b ', id: null } }, '2', 'now');
    expect(added).toEqual({ comments: [{ id: '2', anchor, text: 'b', at: 'now' }], typing: null });
  });
  it('takes the place of the comment that is changed', () => {
    const changed = withTyped({ ...draft, typing: { anchor, text: 'new', id: '1' } }, '2', 'now');
    expect(changed.comments.map((comment) => [comment.id, comment.text])).toEqual([['1', 'new']]);
  });
  it('is nothing when blank', () => {
    expect(withTyped({ ...draft, typing: { anchor, text: ' ', id: null } }, '2', 'now').comments).toHaveLength(1);
  });
  it('can be removed', () => {
    expect(without(draft, '1').comments).toEqual([]);
  });
});
