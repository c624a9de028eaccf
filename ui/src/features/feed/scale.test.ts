import { describe, expect, it } from 'vitest';
import {
  LONGEST_TRACK,
  MOST_ROWS,
  ROW_HEIGHT,
  centre,
  fromTrack,
  isAtEnd,
  isScaled,
  lastTop,
  pageOf,
  reveal,
  spanAt,
  toTrack,
  trackHeight,
} from './scale';

const SIZES = [0, 1, 7, 40, 1_000, 333_333, 333_334, 1_000_000, 10_000_000];
const HEIGHTS = [0, 24, 100, 599, 1_111, 2_328];

describe('the scaled list', () => {
  it('never makes an element taller than engines can', () => {
    for (const rows of SIZES) expect(trackHeight({ rows, height: 600 })).toBeLessThanOrEqual(LONGEST_TRACK);
  });

  it('reaches the first and the last row at every size', () => {
    for (const rows of SIZES) {
      for (const height of HEIGHTS) {
        const box = { rows, height };
        expect(spanAt(0, box).first).toBe(0);
        const end = lastTop(box);
        const span = spanAt(fromTrack(trackHeight(box) - height, box), box);
        expect(span.end === rows || height === 0).toBe(true);
        expect(isAtEnd(end, box)).toBe(true);
        // The last row ends where the window ends.
        if (rows > 0 && end > 0) expect((rows - span.first) * ROW_HEIGHT - span.offset).toBe(height);
      }
    }
  });

  it('mounts under a hundred rows and covers the window, at any place', () => {
    let seed = 3;
    for (let round = 0; round < 5_000; round += 1) {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
      const box = { rows: SIZES[seed % SIZES.length] ?? 0, height: HEIGHTS[seed % HEIGHTS.length] ?? 0 };
      const top = (seed / 2_147_483_648) * lastTop(box);
      const { first, end, offset } = spanAt(top, box);
      expect(end - first).toBeLessThanOrEqual(Math.min(MOST_ROWS, 99));
      expect(first).toBeGreaterThanOrEqual(0);
      expect(offset).toBeGreaterThanOrEqual(0);
      const covered = (end - first) * ROW_HEIGHT - offset;
      expect(covered).toBeGreaterThanOrEqual(Math.min(box.height, box.rows * ROW_HEIGHT) - 1e-6);
    }
  });

  it('maps scroll bar and list onto each other', () => {
    for (const rows of SIZES) {
      const box = { rows, height: 600 };
      for (const share of [0, 0.1, 0.5, 0.999, 1]) {
        const top = lastTop(box) * share;
        expect(Math.abs(fromTrack(toTrack(top, box), box) - top)).toBeLessThan(1e-3);
      }
    }
    expect([isScaled({ rows: 333_333, height: 1 }), isScaled({ rows: 333_334, height: 1 })]).toEqual([false, true]);
  });

  it('moves no further than it must to show a row', () => {
    const box = { rows: 10_000_000, height: 600 };
    expect(reveal(100, 2_400, box)).toBe(2_400);
    expect(reveal(99, 2_400, box)).toBe(99 * ROW_HEIGHT);
    expect(reveal(125, 2_400, box)).toBe(126 * ROW_HEIGHT - 600);
    expect(reveal(9_999_999, 0, box)).toBe(lastTop(box));
    expect(centre(0, box)).toBe(0);
    expect(pageOf(box)).toBe(24);
  });
});
