import { describe, expect, it } from 'vitest';
import { follow, unseen } from './follow';
import type { Follow } from './follow';

const following: Follow = { mode: 'following', end: 100 };

describe('following', () => {
  it('goes along while the view is at the end', () => {
    expect(follow(following, { type: 'grew', end: 120 })).toEqual({ mode: 'following', end: 120 });
    expect(follow(following, { type: 'scrolled', atEnd: true })).toBe(following);
    expect(unseen({ mode: 'following', end: 120 })).toBe(0);
  });

  it('holds when the operator scrolls away or chooses a row, and counts what comes', () => {
    for (const event of [{ type: 'scrolled', atEnd: false } as const, { type: 'picked' } as const]) {
      const held = follow(following, event);
      expect(held).toEqual({ mode: 'holding', end: 100, seen: 100 });
      expect(unseen(follow(held, { type: 'grew', end: 137 }))).toBe(37);
    }
  });

  it('keeps its count while the operator goes on reading', () => {
    const held = follow(follow(following, { type: 'picked' }), { type: 'grew', end: 137 });
    expect(unseen(follow(held, { type: 'scrolled', atEnd: false }))).toBe(37);
  });

  it('follows again at the end', () => {
    const held = follow(follow(following, { type: 'picked' }), { type: 'grew', end: 137 });
    expect(follow(held, { type: 'scrolled', atEnd: true })).toEqual({ mode: 'following', end: 137 });
    expect(follow(held, { type: 'to_end' })).toEqual({ mode: 'following', end: 137 });
  });

  it('does not go back when an older end is told', () => {
    expect(follow(following, { type: 'grew', end: 90 })).toBe(following);
  });
});
