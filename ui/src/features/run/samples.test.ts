import { describe, expect, it } from 'vitest';
import type { Bounds, Sample } from '@/ipc/bindings';
import { MOST_SAMPLES, NOTHING_MEASURED, gaugesOf, withSamples } from './samples';

const BOUNDS: Bounds = { wall_seconds: 600, memory_bytes: 2 ** 31, processes: 512, output_bytes: null };
const sample = (second: number, more: Partial<Sample> = {}): Sample => ({
  at: new Date(Date.UTC(2026, 2, 1, 10, 0, second)).toISOString(),
  cpu_millicores: 1_500,
  memory_bytes: 2 ** 30,
  processes: 12,
  disk_bytes: null,
  ...more,
});
const told = (gauges: ReturnType<typeof gaugesOf>) => Object.fromEntries(gauges.map((gauge) => [gauge.id, [gauge.value, gauge.words]]));

describe('samples', () => {
  it('are taken in once, in order, and kept up to a number', () => {
    const known = withSamples([], [sample(1), sample(2)]);
    expect(withSamples(known, [sample(1), sample(2)])).toBe(known);
    expect(withSamples(known, [sample(2), sample(3)]).map((one) => one.at)).toEqual([1, 2, 3].map((n) => sample(n).at));
    let many: readonly Sample[] = [];
    for (let second = 0; second < 400; second += 1) many = withSamples(many, [sample(second)]);
    expect(many).toHaveLength(MOST_SAMPLES);
    expect(many.at(-1)).toEqual(sample(399));
  });
});

describe('gauges', () => {
  it('say that nothing is measured before anything is', () => {
    expect(told(gaugesOf(NOTHING_MEASURED))).toEqual({
      cpu: [null, 'not measured'],
      memory: [null, 'not measured'],
      processes: [null, 'not measured'],
      disk: [null, 'not measured'],
      time: [null, 'not bounded'],
    });
  });

  it('show the share of a bound and the figures, and nothing where nothing was measured', () => {
    const gauges = gaugesOf({ samples: [sample(1), sample(2, { memory_bytes: 2 ** 31 })], bounds: BOUNDS, wallLeftMs: 150_000 });
    expect(told(gauges)).toEqual({
      cpu: [null, '1.50 cores'],
      memory: [1, '2.0 GiB of 2.0 GiB'],
      processes: [12 / 512, '12 of 512'],
      disk: [null, 'not measured'],
      time: [0.75, '2 min 30 s of 10 min'],
    });
    expect(gauges.find((gauge) => gauge.id === 'memory')?.history).toEqual([2 ** 30, 2 ** 31]);
    expect(gauges.find((gauge) => gauge.id === 'disk')?.history).toEqual([null, null]);
  });

  it('show the share of the disk and of the processors where those are bounded', () => {
    const bounds = { ...BOUNDS, disk_bytes: 2 ** 31, cpu_millicores: 2_000 };
    const gauges = told(gaugesOf({ samples: [sample(1, { disk_bytes: 2 ** 30 })], bounds, wallLeftMs: null }));
    expect(gauges).toMatchObject({ cpu: [0.75, '1.50 cores of 2.00 cores'], disk: [0.5, '1.0 GiB of 2.0 GiB'] });
  });

  it('tell a bounded time that nobody measured from none at all', () => {
    expect(told(gaugesOf({ samples: [], bounds: BOUNDS, wallLeftMs: null }))['time']).toEqual([null, 'not measured']);
  });
});
