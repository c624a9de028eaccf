import type { Bounds, Sample } from '@/ipc/bindings';
import { bytes } from '@/lib/bytes';
import { figure } from '@/lib/count';
import { duration } from '@/lib/time';

/** Samples that are kept for the history. */
export const MOST_SAMPLES = 300;

export interface Measured {
  samples: readonly Sample[];
  bounds: Bounds | null;
  wallLeftMs: number | null;
}

export const NOTHING_MEASURED: Measured = { samples: [], bounds: null, wallLeftMs: null };

/** A gauge of the header. `value` is the share of its bound; null where nothing bounds or measures it. */
export interface Gauge {
  id: string;
  label: string;
  value: number | null;
  words: string;
  history: readonly (number | null)[];
}

/** Takes newer samples in; what is known already is not doubled. */
export function withSamples(known: readonly Sample[], news: readonly Sample[]): readonly Sample[] {
  const last = known.at(-1)?.at ?? '';
  const newer = news.filter((sample) => sample.at > last);
  return newer.length === 0 ? known : [...known, ...newer].slice(-MOST_SAMPLES);
}

export function gaugesOf({ samples, bounds, wallLeftMs }: Measured): Gauge[] {
  const last = samples.at(-1);
  const history = (of: (sample: Sample) => number | null | undefined): (number | null)[] =>
    samples.map((sample) => of(sample) ?? null);
  return [
    {
      id: 'cpu',
      label: 'CPU',
      ...told(last?.cpu_millicores ?? null, bounds?.cpu_millicores ?? null, (n) => `${(n / 1000).toFixed(2)} cores`),
      history: history((sample) => sample.cpu_millicores),
    },
    {
      id: 'memory',
      label: 'Memory',
      ...told(last?.memory_bytes ?? null, bounds?.memory_bytes ?? null, bytes),
      history: history((sample) => sample.memory_bytes),
    },
    {
      id: 'processes',
      label: 'Processes',
      ...told(last?.processes ?? null, bounds?.processes ?? null, figure),
      history: history((sample) => sample.processes),
    },
    { id: 'disk', label: 'Disk', ...told(last?.disk_bytes ?? null, bounds?.disk_bytes ?? null, bytes), history: history((sample) => sample.disk_bytes) },
    { id: 'time', label: 'Time left', ...timeLeft(bounds, wallLeftMs), history: [] },
  ];
}

/** The share of the bound and the figures; without a bound the figure alone. */
function told(now: number | null, bound: number | null, words: (n: number) => string): Pick<Gauge, 'value' | 'words'> {
  if (now === null) return { value: null, words: 'not measured' };
  if (bound === null || bound === 0) return { value: null, words: words(now) };
  return { value: now / bound, words: `${words(now)} of ${words(bound)}` };
}

function timeLeft(bounds: Bounds | null, left: number | null): Pick<Gauge, 'value' | 'words'> {
  const all = (bounds?.wall_seconds ?? 0) * 1000;
  if (left === null) return { value: null, words: all === 0 ? 'not bounded' : 'not measured' };
  if (all === 0) return { value: null, words: duration(left) };
  return { value: 1 - left / all, words: `${duration(left)} of ${duration(all)}` };
}
