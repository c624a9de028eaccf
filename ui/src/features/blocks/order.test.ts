import { describe, expect, it } from 'vitest';
import { keepPlaces, nextOpen, placesOf, pushed, withoutDecided } from './order';
import { sampleView } from './sample.fixture';

const view = (id: string, minute: number) =>
  sampleView({ id, first_at: `2026-01-02T10:${String(minute).padStart(2, '0')}:00Z` });

describe('the places of cards', () => {
  it('are by age at first', () => {
    expect(keepPlaces([], [view('b', 5), view('a', 9), view('c', 1)])).toEqual(['c', 'b', 'a']);
  });

  it('stay when a card arrives, even an older one, and when one is decided', () => {
    expect(keepPlaces(['b', 'a'], [view('a', 9), view('old', 1), view('new', 20)])).toEqual(['b', 'a', 'old', 'new']);
  });

  it('are given up when the operator clears what is decided', () => {
    expect(withoutDecided(['a', 'b', 'c'], (id) => id !== 'b')).toEqual(['a', 'c']);
  });

  it('are walked around the end, past decided ones', () => {
    const open = (id: string) => id !== 'b';
    expect(nextOpen(['a', 'b', 'c'], null, open)).toBe('a');
    expect(nextOpen(['a', 'b', 'c'], 'a', open)).toBe('c');
    expect(nextOpen(['a', 'b', 'c'], 'c', open)).toBe('a');
    expect(nextOpen(['a'], 'a', open)).toBe('a');
    expect(nextOpen(['b'], 'b', open)).toBeNull();
    expect(nextOpen([], null, open)).toBeNull();
  });

  it('know which cards were pushed, and not by scrolling', () => {
    const before = placesOf([{ id: 'a', start: 0 }, { id: 'b', start: 300 }], 100);
    expect(pushed(before, placesOf([{ id: 'a', start: 0 }, { id: 'b', start: 340 }], 100))).toEqual(['b']);
    expect(pushed(before, placesOf([{ id: 'a', start: 0 }, { id: 'b', start: 300 }], 250))).toEqual([]);
    // What grows above is made up for by scrolling: on the screen nothing moves.
    expect(pushed(before, placesOf([{ id: 'b', start: 340 }], 140))).toEqual([]);
    expect(pushed(before, placesOf([{ id: 'c', start: 500 }], 100))).toEqual([]);
  });
});
