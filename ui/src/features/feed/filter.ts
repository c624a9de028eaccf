import type { EventFilter } from '@/ipc/bindings';
import { oneLine } from '@/lib/text';

/** What an operator cares about, from the most urgent. */
export const SEVERITIES = ['error', 'warning', 'decision', 'info', 'output'] as const;
export type Severity = (typeof SEVERITIES)[number];

export const SEVERITY_WORDS: Readonly<Record<Severity, string>> = {
  error: 'Failures',
  warning: 'Warnings',
  decision: 'Decisions',
  info: 'Progress',
  output: 'Output',
};

/** Kinds that can be asked for, with their words. */
export const KIND_WORDS: Readonly<Record<string, string>> = {
  output: 'Output',
  agent: 'Agent',
  block: 'Blocks',
  amendment: 'Amendments and denials',
  egress: 'Connections',
  connection_closed: 'Connections that ended',
  name_looked_up: 'Names looked up',
  file: 'Files',
  exec: 'Programs executed',
  exit: 'Programs that ended',
  state: 'States',
  step_started: 'Steps that started',
  step_ended: 'Steps that ended',
  progress: 'Preparing and collecting',
  warning: 'Warnings',
  probe: 'Walls probed',
  policy_applied: 'Policy revisions',
  bound: 'Bounds',
  sample: 'What it used',
  commits: 'Commits',
  shell_opened: 'Shells opened',
  shell_ended: 'Shells ended',
  port_opened: 'Ports published',
  port_closed: 'Ports closed',
  gap: 'Dropped ranges',
};

export interface FilterState {
  readonly severities: readonly Severity[];
  readonly kinds: readonly string[];
  readonly steps: readonly string[];
  readonly process: number | null;
  readonly host: string | null;
}

export const NO_FILTER: FilterState = { severities: [], kinds: [], steps: [], process: null, host: null };

export function isFiltering(filter: FilterState): boolean {
  return chipsOf(filter).length > 0;
}

/** The filter as the engine takes it. */
export function wireFilter(filter: FilterState): EventFilter {
  return {
    severities: [...filter.severities],
    kinds: [...filter.kinds],
    steps: [...filter.steps],
    process: filter.process,
    host: filter.host,
  };
}

/** The list with an item, or without it when it had it. */
export function toggled<T>(list: readonly T[], item: T): readonly T[] {
  return list.includes(item) ? list.filter((one) => one !== item) : [...list, item];
}

/** One condition, and the filter without it. */
export interface Chip {
  id: string;
  label: string;
  without: FilterState;
}

export function chipsOf(filter: FilterState): Chip[] {
  const chips: Chip[] = [];
  for (const severity of filter.severities) {
    const without = { ...filter, severities: toggled(filter.severities, severity) };
    chips.push({ id: `severity:${severity}`, label: SEVERITY_WORDS[severity], without });
  }
  for (const kind of filter.kinds) {
    const without = { ...filter, kinds: toggled(filter.kinds, kind) };
    chips.push({ id: `kind:${kind}`, label: KIND_WORDS[kind] ?? oneLine(kind, 40), without });
  }
  for (const step of filter.steps) {
    const without = { ...filter, steps: toggled(filter.steps, step) };
    chips.push({ id: `step:${step}`, label: `Step ${oneLine(step, 40)}`, without });
  }
  if (filter.process !== null) {
    chips.push({ id: 'process', label: `Process ${filter.process}`, without: { ...filter, process: null } });
  }
  if (filter.host !== null) {
    chips.push({ id: 'host', label: `Host ${oneLine(filter.host, 80)}`, without: { ...filter, host: null } });
  }
  return chips;
}

/** A process id as typed. */
export function processOf(typed: string): number | null {
  const pid = /^\s*\d{1,10}\s*$/.test(typed) ? Number(typed) : 0;
  return pid >= 1 && pid <= 0xffff_ffff ? pid : null;
}
