import { describe, expect, it } from 'vitest';
import { event, gap, line } from './events.fixture';
import { KEPT_TEXT, lastSeqOf, rowOf } from './row';

describe('what is kept of an event', () => {
  it('is all of it when it is short', () => {
    const short = line(5);
    expect(rowOf(short)).toEqual({ seq: 5, event: short, cut: false, view: null });
  });

  it('is the beginning of a long line, without its bytes', () => {
    const long = event({ kind: 'output', stream: 'stdout', text: 'y'.repeat(65_536), raw: 'AAAA', continued: true }, 9);
    const row = rowOf(long);
    expect(row.cut).toBe(true);
    expect(row.event).toMatchObject({ kind: 'output', text: 'y'.repeat(KEPT_TEXT), raw: null, continued: true });
  });

  it('stands for all that a gap covers', () => {
    expect([lastSeqOf(line(7)), lastSeqOf(gap(3, 90))]).toEqual([7, 90]);
  });
});
