import { describe, expect, it } from 'vitest';
import { Log } from './events.fixture';
import { wireFilter, NO_FILTER } from './filter';
import { FilteredRows } from './filtered';
import { Position } from './position';
import { PAGE } from './source';
import type { Ask } from './source';

const FILTER = wireFilter({ ...NO_FILTER, kinds: ['output'] });

function feed(log: Log, start: number | null, most?: number): { rows: FilteredRows; settle: () => Promise<void> } {
  const fetch = (ask: Ask) => Promise.resolve({ ok: true as const, value: log.answer(ask) });
  const rows = new FilteredRows(fetch, FILTER, log.end, start, () => undefined, most);
  const settle = async (): Promise<void> => {
    for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
  };
  return { rows, settle };
}

const seqs = (rows: FilteredRows): [number, number] => [rows.seqAt(0), rows.seqAt(rows.count - 1)];

describe('FilteredRows', () => {
  it('begins with the newest page that passes', async () => {
    const log = new Log(100_000, undefined, [], (seq) => seq % 10 === 0);
    const { rows, settle } = feed(log, null);
    await rows.tail(0);
    await settle();
    expect(rows.count).toBe(PAGE);
    expect(seqs(rows)).toEqual([100_000 - (PAGE - 1) * 10, 100_000]);
    expect(log.asked.map((ask) => [ask.before, ask.filter])).toEqual([[100_001, FILTER]]);
  });

  it('goes on to both sides of where it begins, and the view stays where it was', async () => {
    const log = new Log(100_000, undefined, [], (seq) => seq % 2 === 0);
    const { rows, settle } = feed(log, 50_000);
    const position = new Position(rows);
    position.height = 600;
    rows.want(0, 25);
    await settle();
    position.moveTo(24 * 10);
    const seen = rows.seqAt(10);
    rows.want(10, 35);
    await settle();
    position.settle(false);
    expect(rows.seqAt(Math.floor(position.top / 24))).toBe(seen);
    rows.want(rows.count - 25, rows.count);
    await settle();
    expect(seqs(rows)).toEqual([50_000 - 2 * (2 * PAGE - 1), 50_000 + 2 * PAGE]);
  });

  it('keeps a bounded stretch, and finds again what it let go of', async () => {
    const log = new Log(100_000);
    const { rows, settle } = feed(log, null, 4 * PAGE);
    for (let time = 0; time < 12; time += 1) {
      rows.want(0, 25);
      await settle();
    }
    expect(rows.count).toBe(4 * PAGE);
    const newest = rows.seqAt(rows.count - 1);
    expect(newest).toBeLessThan(100_000);
    rows.want(rows.count - 25, rows.count);
    await settle();
    expect(rows.seqAt(rows.count - 1)).toBe(newest + PAGE);
    expect(rows.count).toBe(4 * PAGE);
  });

  it('takes in what comes', async () => {
    const log = new Log(1_000, undefined, [], (seq) => seq % 100 === 0);
    const { rows } = feed(log, null);
    await rows.tail(0);
    log.end = 1_250;
    rows.grow(1_250);
    await rows.tail(0);
    expect(seqs(rows)).toEqual([100, 1_200]);
    expect(rows.count).toBe(12);
  });

  it('says nothing passes and does not ask for ever', async () => {
    const log = new Log(1_000, undefined, [], () => false);
    const { rows, settle } = feed(log, null);
    expect(rows.isLooking).toBe(true);
    for (let time = 0; time < 10; time += 1) {
      rows.want(0, 25);
      await settle();
    }
    expect([rows.count, rows.isLooking, log.asked.length]).toEqual([0, false, 1]);
  });
});
