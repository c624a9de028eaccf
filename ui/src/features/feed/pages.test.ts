import { describe, expect, it } from 'vitest';
import { Log, gap, line } from './events.fixture';
import { DenseRows } from './pages';
import { PAGE } from './source';
import type { Ask } from './source';

function feed(log: Log, mostPages?: number): { rows: DenseRows; settle: () => Promise<void> } {
  const fetch = (ask: Ask) => Promise.resolve({ ok: true as const, value: log.answer(ask) });
  const rows = new DenseRows(fetch, log.end, () => undefined, mostPages);
  const settle = async (): Promise<void> => {
    for (let turn = 0; turn < 50; turn += 1) await Promise.resolve();
  };
  return { rows, settle };
}

const texts = (rows: DenseRows, from: number, to: number): (string | undefined)[] =>
  Array.from({ length: to - from }, (_, index) => {
    const row = rows.at(from + index);
    return row?.event.kind === 'output' ? row.event.text : row?.event.kind;
  });

describe('DenseRows', () => {
  it('asks for the tail only, whatever the length of the history', async () => {
    const log = new Log(1_000_000);
    const { rows, settle } = feed(log);
    expect(rows.count).toBe(1_000_000);
    rows.want(999_960, 1_000_000);
    await settle();
    expect(texts(rows, 999_998, 1_000_000)).toEqual(['line 999999', 'line 1000000']);
    expect(log.asked.length).toBeLessThanOrEqual(2);
  });

  it('asks for a page once, however often it is looked at', async () => {
    const log = new Log(10_000);
    const { rows, settle } = feed(log);
    for (let time = 0; time < 20; time += 1) rows.want(0, 25);
    await settle();
    for (let time = 0; time < 20; time += 1) rows.want(0, 25);
    await settle();
    expect(log.asked.map((ask) => ask.after)).toEqual([0]);
  });

  it('asks ahead in the direction of the last move', async () => {
    const log = new Log(100_000);
    const { rows, settle } = feed(log);
    rows.want(50 * PAGE + 400, 50 * PAGE + 440);
    await settle();
    expect(log.asked.map((ask) => ask.after)).toEqual([50 * PAGE, 51 * PAGE]);
    rows.want(50 * PAGE + 20, 50 * PAGE + 60);
    await settle();
    expect(log.asked.at(-1)?.after).toBe(49 * PAGE);
  });

  it('keeps a bounded number of pages and brings dropped ones again', async () => {
    const log = new Log(1_000_000);
    const { rows, settle } = feed(log, 8);
    for (let page = 0; page < 100; page += 1) {
      rows.want(page * PAGE, page * PAGE + 40);
      await settle();
      expect(rows.kept).toBeLessThanOrEqual(8);
    }
    expect(rows.at(0)).toBeNull();
    rows.want(0, 40);
    await settle();
    expect(texts(rows, 0, 1)).toEqual(['line 1']);
  });

  it('has at most two requests under way while somebody drags the scroll bar', async () => {
    const log = new Log(1_000_000);
    const waiting: (() => void)[] = [];
    let most = 0;
    const rows = new DenseRows(
      (ask) =>
        new Promise((resolve) => {
          waiting.push(() => resolve({ ok: true, value: log.answer(ask) }));
          most = Math.max(most, waiting.length);
        }),
      log.end,
      () => undefined,
    );
    for (let row = 0; row < 900_000; row += 9_000) rows.want(row, row + 40);
    expect(most).toBe(2);
    while (waiting.length > 0) {
      waiting.shift()?.();
      for (let turn = 0; turn < 10; turn += 1) await Promise.resolve();
    }
    expect(log.asked.length).toBeLessThanOrEqual(5);
    expect(rows.at(891_000)).not.toBeNull();
  });

  it('shows a dropped range as one row, and drops what it kept of it', async () => {
    const log = new Log(20_000);
    const { rows, settle } = feed(log);
    rows.want(0, 40);
    await settle();
    expect(texts(rows, 0, 1)).toEqual(['line 1']);
    log.gaps = [[3, 12_402]];
    rows.want(4_000, 4_040);
    await settle();
    expect(rows.count).toBe(20_000 - 12_399);
    expect(texts(rows, 1, 4)).toEqual(['line 2', 'gap', 'line 12403']);
    rows.want(0, 40);
    await settle();
    expect(texts(rows, 0, 5)).toEqual(['line 1', 'line 2', 'gap', 'line 12403', 'line 12404']);
    expect(rows.indexOf(5_000)).toBe(2);
  });

  it('takes a cursor that retention overtook as the gap that answers it', async () => {
    const log = new Log(600);
    const { rows, settle } = feed(log);
    rows.want(560, 600);
    await rows.tail(0);
    await settle();
    log.end = 700;
    log.gaps = [[1, 650]];
    rows.grow(700, true);
    await rows.tail(0);
    rows.want(0, 40);
    await settle();
    expect(rows.count).toBe(51);
    expect(texts(rows, 0, 2)).toEqual(['gap', 'line 651']);
  });

  it('skips to the end of a fast run instead of pulling all of it', async () => {
    const log = new Log(1_000);
    const { rows } = feed(log);
    await rows.tail(0);
    for (let burst = 1; burst <= 60; burst += 1) {
      log.end = 1_000 + burst * 20_000;
      rows.grow(log.end, true);
      while ((await rows.tail(0)) === 'more');
      expect(texts(rows, rows.count - 45, rows.count)).not.toContain(undefined);
    }
    expect(log.asked.length).toBeLessThanOrEqual(62);
    expect(rows.kept).toBeLessThanOrEqual(64);
  });

  it('has no rows for what it only heard of while the end is followed', async () => {
    const log = new Log(1_000);
    const { rows } = feed(log);
    await rows.tail(0);
    log.end = 9_000;
    rows.grow(9_000, true);
    expect([rows.count, rows.newest]).toEqual([1_000, 9_000]);
    await rows.tail(0);
    expect(rows.count).toBe(9_000);
    expect(texts(rows, 8_955, 9_000)).not.toContain(undefined);
    log.end = 9_500;
    rows.grow(9_500, true);
    rows.grow(9_500, false);
    expect(rows.count).toBe(9_500);
  });

  it('fills in what was skipped when somebody looks there', async () => {
    const log = new Log(1_000);
    const { rows, settle } = feed(log);
    await rows.tail(0);
    log.end = 2_000;
    rows.grow(2_000, true);
    await rows.tail(0);
    rows.want(1_690, 1_745);
    await settle();
    expect(texts(rows, 1_690, 1_745)).not.toContain(undefined);
  });

  it('stops at a failure and goes on after a retry', async () => {
    const log = new Log(1_000);
    let fails = true;
    const rows = new DenseRows(
      (ask) =>
        Promise.resolve(
          fails
            ? { ok: false as const, failure: { code: 'busy' as const, message: 'another engine holds it' } }
            : { ok: true as const, value: log.answer(ask) },
        ),
      log.end,
      () => undefined,
    );
    rows.want(0, 40);
    for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
    expect(rows.failure?.code).toBe('busy');
    rows.want(0, 40);
    expect(log.asked).toEqual([]);
    fails = false;
    rows.retry();
    for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
    expect(texts(rows, 0, 1)).toEqual(['line 1']);
  });

  it('rests at the end of a run, also where more was told of than there is', async () => {
    const log = new Log(100);
    const rows = new DenseRows(
      (ask) => Promise.resolve({ ok: true as const, value: { ...log.answer(ask), ended: true } }),
      log.end,
      () => undefined,
    );
    expect(await rows.tail(0)).toBe('ended');
    rows.grow(120, true);
    expect(await rows.tail(0)).toBe('ended');
  });

  it('does not ask again and again for what nobody has', async () => {
    const log = new Log(100);
    const { rows, settle } = feed(log);
    rows.grow(600, false);
    for (let time = 0; time < 10; time += 1) {
      rows.want(590, 600);
      await settle();
    }
    expect(log.asked.length).toBeLessThanOrEqual(3);
  });

  it('asks for less at a time where events are heavy, and still shows what is looked at', async () => {
    const heavy = (seq: number) => line(seq, 'm'.repeat(16_384));
    const log = new Log(3_200, heavy);
    const { rows, settle } = feed(log);
    await rows.tail(0);
    for (let first = 3_000; first > 0; first -= 37) {
      rows.want(first, first + 45);
      await settle();
      expect(texts(rows, first, first + 45)).not.toContain(undefined);
    }
    const limits = log.asked.slice(1).map((ask) => ask.limit);
    expect(Math.max(...limits)).toBeLessThanOrEqual(64);
    expect(log.asked.length).toBeLessThan(200);
  });

  it('keeps the row of a gap for its detail', async () => {
    const log = new Log(10, undefined, [[1, 9]]);
    const { rows, settle } = feed(log);
    rows.want(0, 10);
    await settle();
    expect(rows.at(0)?.event).toEqual(gap(1, 9));
  });
});
