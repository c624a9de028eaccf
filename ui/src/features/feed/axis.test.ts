import { describe, expect, it } from 'vitest';
import { Axis } from './axis';
import type { Gap } from './axis';
import { gap } from './events.fixture';
import { rowOf } from './row';

const hole = (from: number, to: number): Gap => ({ from, to, row: rowOf(gap(from, to)) });

describe('Axis', () => {
  it('is the numbers themselves without gaps', () => {
    const axis = new Axis();
    expect([axis.count(1_000_000), axis.rowOf(1), axis.seqOf(999_999)]).toEqual([1_000_000, 0, 1_000_000]);
  });

  it('folds a gap into one row', () => {
    const axis = new Axis();
    axis.add([hole(11, 12_410)]);
    expect(axis.count(20_000)).toBe(20_000 - 12_399);
    expect([axis.rowOf(10), axis.rowOf(11), axis.rowOf(5_000), axis.rowOf(12_410), axis.rowOf(12_411)]).toEqual([
      9, 10, 10, 10, 11,
    ]);
    expect([axis.seqOf(9), axis.seqOf(10), axis.seqOf(11)]).toEqual([10, 11, 12_411]);
    expect([axis.gapAt(10), axis.gapAt(11)?.to, axis.gapAt(12_411)]).toEqual([null, 12_410, null]);
  });

  it('lets a wider gap take the place of those that it covers', () => {
    const axis = new Axis();
    expect(axis.add([hole(5, 9), hole(20, 29)])).toBe(true);
    expect(axis.add([hole(5, 9)])).toBe(false);
    expect(axis.add([hole(5, 40)])).toBe(true);
    expect([axis.count(100), axis.rowOf(41), axis.seqOf(5)]).toEqual([65, 5, 41]);
  });

  it('maps rows and numbers back and forth, wherever gaps are', () => {
    let seed = 7;
    const random = (n: number): number => {
      seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648;
      return seed % n;
    };
    for (let round = 0; round < 30; round += 1) {
      const axis = new Axis();
      const end = 2_000;
      for (let seq = 1 + random(50); seq < end - 100; seq += 2 + random(200)) {
        const to = seq + random(90);
        axis.add([hole(seq, to)]);
        seq = to + 1;
      }
      for (let row = 0; row < axis.count(end); row += 1) expect(axis.rowOf(axis.seqOf(row))).toBe(row);
      expect(axis.rowOf(end)).toBe(axis.count(end) - 1);
    }
  });
});
