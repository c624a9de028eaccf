import type { Bounds, MergeEntry, RunDetailsView } from '@/ipc/bindings';
import { bytes } from '@/lib/bytes';
import { figure } from '@/lib/count';
import { figureWords } from '@/features/blocks/bounds';
import { wallWords } from '@/features/feed/words';
import { oneLine } from '@/lib/text';
import { duration } from '@/lib/time';

/** Bounds in words, one a row. A bound that was not ordered is the engine's own. */
export function boundRows(bounds: Bounds): { label: string; text: string }[] {
  const told = (n: number | null | undefined, words: (n: number) => string): string =>
    (n ?? null) === null ? 'the engine’s default' : words(n ?? 0);
  const seconds = (n: number): string => duration(n * 1000);
  return [
    { label: 'Time', text: told(bounds.wall_seconds, seconds) },
    { label: 'Memory', text: told(bounds.memory_bytes, bytes) },
    { label: 'Processes', text: told(bounds.processes, figure) },
    { label: 'Processor time', text: told(bounds.cpu_millicores, (n) => figureWords('cpu', n)) },
    { label: 'Disk', text: told(bounds.disk_bytes, bytes) },
    { label: 'Open files of a process', text: told(bounds.open_files, figure) },
    { label: 'Output', text: told(bounds.output_bytes, bytes) },
    ...(['tokens', 'cost', 'turns'] as const).map((bound) => ({ label: boundLabel(bound), text: unbounded(bounds, bound) })),
    {
      label: 'A held action waits',
      text: (bounds.hold_seconds ?? null) === null ? 'as long as it takes' : `at most ${seconds(bounds.hold_seconds ?? 0)}`,
    },
  ];
}

const BOUND_LABELS = { tokens: 'Tokens', cost: 'Cost', turns: 'Turns' } as const;
const boundLabel = (bound: keyof typeof BOUND_LABELS): string => BOUND_LABELS[bound];

/** What an agent may use by its own word; the engine sets no default for it. */
function unbounded(bounds: Bounds, bound: keyof typeof BOUND_LABELS): string {
  const limit = { tokens: bounds.tokens, cost: bounds.cost_microusd, turns: bounds.turns }[bound] ?? null;
  return limit === null ? 'not bounded' : figureWords(bound, limit);
}

export function mergeWords(entry: MergeEntry): string {
  switch (entry.standing) {
    case 'waiting':
      return `Number ${figure(entry.number)} of the merge queue; others of its repository are before it.`;
    case 'working':
      return 'It is being synced, checked or merged.';
    case 'merged':
      return `It is in the base branch as ${oneLine(entry.commit, 12)}.`;
    case 'returned':
      return `It went back to review: ${oneLine(entry.reason, 400)}.`;
    default: {
      const never: never = entry;
      return oneLine(JSON.stringify(never), 200);
    }
  }
}

/** How the run was ordered, a line each. */
export function orderedRows(details: RunDetailsView): { label: string; text: string; isMachine?: boolean }[] {
  const { setup, checks, allow, accept_weaker, unattended, terminal, env_names } = details;
  const list = (items: readonly string[], none: string): string =>
    items.length === 0 ? none : items.map((item) => oneLine(item, 400)).join(', ');
  return [
    { label: 'Setup', text: setup === null ? 'none' : oneLine(setup, 1000), isMachine: setup !== null },
    { label: 'Checks', text: list(checks, 'none'), isMachine: checks.length > 0 },
    { label: 'Allowed from the start', text: allow === null ? 'not kept any more' : list(allow, 'nothing') },
    { label: 'Walls that may be missing', text: accept_weaker.length === 0 ? 'none' : accept_weaker.map(wallWords).join(', ') },
    { label: 'What no rule allows', text: unattended ? 'is refused at once' : 'is held until you decide' },
    { label: 'Terminal', text: terminal === null ? 'none' : `${terminal.columns} by ${terminal.rows}` },
    { label: 'Variables of yours it sees', text: list(env_names, 'none'), isMachine: env_names.length > 0 },
    ...(details.secrets_notice ? [{ label: 'Secrets', text: oneLine(details.secrets_notice, 2000) }] : []),
    ...((details.toolchains ?? []).length === 0 ? [] : [{ label: 'Toolchains of yours it sees', text: list((details.toolchains ?? []).map((one) => one.toolchain), 'none') }]),
  ];
}
