// The order form: what is typed, what is wrong with it, and what is sent.

import type { OrderDraft, OrderGate, OrderSpec, Recurrence, RunCreate, SchedulingHints, Wall } from '@/ipc/bindings';
import { allowFault } from './allow';
import { splitArgs } from './argv';
import { boundFault, boundValue, parseDuration } from '@/lib/quantity';
import type { BoundField } from '@/lib/quantity';

export type Repeat = 'no' | 'every' | 'calendar';
export type Missed = 'skip' | 'once' | 'all';

export interface OrderForm {
  title: string;
  prompt: string;
  command: string;
  repo: string;
  base: string;
  allow: string[];
  /** Hold what is hidden also when it is to be read. */
  holdReads: boolean;
  policy: string;
  wall: string;
  cpu: string;
  memory: string;
  disk: string;
  processes: string;
  openFiles: string;
  output: string;
  hold: string;
  setup: string;
  checks: string[];
  copy: string[];
  gate: OrderGate;
  scope: string[];
  mandatory: boolean;
  strict: boolean;
  priority: boolean;
  dependsOn: string[];
  notBefore: string;
  repeat: Repeat;
  every: string;
  calendar: string;
  zone: string;
  missed: Missed;
  attempts: string;
  retries: string;
  kind: string;
  group: string;
  envFrom: string[];
  unattended: boolean;
  accept: Wall[];
}

export type Field = keyof OrderForm;
export type Faults = Partial<Record<Field, string>>;

export function emptyForm(): OrderForm {
  return {
    title: '', prompt: '', command: '', repo: '', base: '', allow: [], holdReads: false, policy: '',
    wall: '', cpu: '', memory: '', disk: '', processes: '', openFiles: '', output: '', hold: '',
    setup: '', checks: [], copy: [], gate: 'review', scope: [], mandatory: false, strict: false, priority: false, dependsOn: [], notBefore: '',
    repeat: 'no', every: '', calendar: '', zone: '', missed: 'skip', attempts: '1', retries: '0', kind: '', group: '', envFrom: [], unattended: false, accept: [],
  };
}

/** Fields for bounds, and which bound each is. */
const BOUNDS = [
  ['wall', 'wall'], ['cpu', 'cpu'], ['memory', 'memory'], ['disk', 'disk'],
  ['processes', 'processes'], ['openFiles', 'open_files'], ['output', 'output'], ['hold', 'hold'],
] as const satisfies readonly (readonly [Field, BoundField])[];

const LONGEST_PROMPT = 120 * 1024;
const MOST_CHECKS = 64;

/** Entries of a list that say something. */
export function filled(list: readonly string[]): string[] {
  return list.map((item) => item.trim()).filter((item) => item !== '');
}

function whole(text: string, least: number, most: number): string | null {
  const fits = /^\s*\d{1,6}\s*$/.test(text) && Number(text) >= least && Number(text) <= most;
  return fits ? null : `Write a whole number from ${String(least)} to ${String(most)}.`;
}

function commandFault(form: OrderForm): string | null {
  const { argv, fault } = splitArgs(form.command);
  if (fault !== null) return fault;
  if (argv.length === 0 || argv[0] === '') return 'Write the command of the agent, or choose one that was found.';
  if (form.command.includes('\0')) return 'It holds a NUL byte, which no program can be given.';
  const wants = argv.some((word) => word.includes('{prompt}'));
  return wants && form.prompt.trim() === '' ? 'The command has {prompt} and there is no prompt. Write one, or take the placeholder out.' : null;
}

function repeatFaults(form: OrderForm): Faults {
  if (form.repeat === 'every') {
    const seconds = parseDuration(form.every);
    if (seconds === null) return { every: 'Write a number and a unit, as 6h.' };
    return seconds < 60 ? { every: 'It comes again after a minute at the earliest.' } : {};
  }
  if (form.repeat === 'calendar' && form.calendar.trim().split(/\s+/).length !== 5) {
    return { calendar: 'Write five fields: minute, hour, day of month, month, day of week, as 30 3 * * 1-5.' };
  }
  return {};
}

/** What is wrong, by field; nothing when it can be sent. */
export function faultsOf(form: OrderForm): Faults {
  const faults: Record<string, string> = {};
  const say = (field: Field, why: string | null): void => {
    if (why !== null) faults[field] = why;
  };
  say('command', commandFault(form));
  say('repo', form.repo.trim() === '' ? 'Choose a repository, or write its path.' : /^(\/|[A-Za-z]:[\\/])/.test(form.repo.trim()) ? null : 'Write the whole path, from the root on.');
  say('prompt', new TextEncoder().encode(form.prompt).length > LONGEST_PROMPT ? 'The prompt is longer than 120 KiB, which no program can be given. Put it into a file of the repository and name that.' : null);
  const wrong = form.allow.find((item) => item.trim() !== '' && allowFault(item) !== null);
  say('allow', wrong === undefined ? null : `${wrong.trim()}: ${allowFault(wrong) ?? ''}`);
  for (const [field, bound] of BOUNDS) say(field, boundFault(bound, form[field]));
  say('checks', filled(form.checks).length > MOST_CHECKS ? 'A run can have at most 64 checks.' : form.gate === 'checks' && filled(form.checks).length === 0 ? 'Merging by itself needs at least one check.' : null);
  say('mandatory', form.mandatory && filled(form.scope).length === 0 ? 'A mandatory claim needs paths.' : null);
  say('notBefore', form.notBefore !== '' && Number.isNaN(Date.parse(form.notBefore)) ? 'That is no time. Choose a day and a time.' : null);
  say('attempts', whole(form.attempts, 1, 16) ?? (form.repeat !== 'no' && Number(form.attempts) > 1 ? 'A recurring order has one attempt at a time.' : null));
  say('retries', whole(form.retries, 0, 20));
  return { ...faults, ...repeatFaults(form) };
}

function textOrNull(text: string): string | null {
  return text.trim() === '' ? null : text.trim();
}

/** What is run, and under which rules. */
export function toRun(form: OrderForm): RunCreate {
  return {
    repo: form.repo.trim(),
    title: textOrNull(form.title),
    base: textOrNull(form.base),
    allow: filled(form.allow),
    policy: form.policy.trim() === '' ? null : { name: 'policy of the order', text: form.policy },
    bounds: {
      wall_seconds: boundValue('wall', form.wall), cpu_millicores: boundValue('cpu', form.cpu), memory_bytes: boundValue('memory', form.memory),
      disk_bytes: boundValue('disk', form.disk), processes: boundValue('processes', form.processes), open_files: boundValue('open_files', form.openFiles),
      output_bytes: boundValue('output', form.output), hold_seconds: boundValue('hold', form.hold),
    },
    setup: textOrNull(form.setup),
    checks: filled(form.checks),
    terminal: null,
    unattended: form.unattended,
    ...(form.holdReads ? { hold_reads: true } : {}),
    accept_weaker: [...form.accept],
    argv: [...splitArgs(form.command).argv],
    env: [],
    proxy: [],
    ...(filled(form.copy).length > 0 ? { prepare: { copy: filled(form.copy) } } : {}),
  };
}

function recurrence(form: OrderForm, now: Date): Recurrence | null {
  const missed = form.missed === 'all' ? { all: { at_most: 10 } } : form.missed;
  if (form.repeat === 'calendar') return { calendar: form.calendar.trim(), zone: textOrNull(form.zone), missed } as Recurrence;
  if (form.repeat === 'no') return null;
  const midnight = new Date(Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), now.getUTCDate()));
  return { every_seconds: parseDuration(form.every) ?? 60, from: midnight.toISOString(), missed } as Recurrence;
}

/** Its place in the queue; only what was said. */
export function toHints(form: OrderForm, now: Date): SchedulingHints {
  const again = recurrence(form, now);
  return {
    priority: form.priority,
    ...(textOrNull(form.kind) === null ? {} : { kind: textOrNull(form.kind) }),
    ...(textOrNull(form.group) === null ? {} : { concurrency_class: textOrNull(form.group) }),
    ...(form.notBefore === '' ? {} : { not_before: new Date(form.notBefore).toISOString() }),
    ...(again === null ? {} : { recurrence: again }),
    retries: Number(form.retries),
  };
}

export function toDraft(form: OrderForm, now: Date): OrderDraft {
  const patterns = filled(form.scope);
  const spec: OrderSpec = {
    run: toRun(form),
    env_from: filled(form.envFrom),
    prompt: textOrNull(form.prompt),
    hints: toHints(form, now),
    scope: patterns.length === 0 ? null : { patterns, enforcement: form.mandatory ? 'mandatory' : 'advisory', strict: form.mandatory && form.strict },
    depends_on: filled(form.dependsOn),
    gate: form.gate,
  };
  return { spec, ...(Number(form.attempts) > 1 ? { attempts: Number(form.attempts) } : {}) };
}

/** What keeps "Start now" from being meant: an order that is to wait. */
export function startFault(form: OrderForm): string | null {
  if (form.repeat !== 'no') return 'A recurring order is started by its slots. Put it into the queue.';
  return form.notBefore !== '' ? 'It is not to start before a time. Put it into the queue, or take the time away.' : null;
}

/** True where a run by itself says all of it: it starts past the caps of the queue, as `foreman run` does. */
export function isPlainRun(form: OrderForm): boolean {
  return (
    form.prompt.trim() === '' && form.gate === 'review' && filled(form.scope).length === 0 && filled(form.dependsOn).length === 0 &&
    filled(form.envFrom).length === 0 && Number(form.attempts) === 1 && Number(form.retries) === 0 && form.kind.trim() === '' && form.group.trim() === ''
  );
}

/** Fields that stand behind "More". */
export const MORE: readonly Field[] = [
  'policy', 'wall', 'cpu', 'memory', 'disk', 'processes', 'openFiles', 'output', 'hold', 'setup', 'copy', 'scope', 'mandatory', 'strict', 'priority', 'dependsOn', 'notBefore',
  'repeat', 'every', 'calendar', 'zone', 'missed', 'attempts', 'retries', 'kind', 'group', 'envFrom', 'unattended', 'accept',
];

/** True where something behind "More" is filled in. */
export function saysMore(form: OrderForm): boolean {
  const empty = emptyForm();
  return MORE.some((field) => JSON.stringify(form[field]) !== JSON.stringify(empty[field]));
}
