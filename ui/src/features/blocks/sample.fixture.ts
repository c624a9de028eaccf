// Blocks and decisions for the tests of this folder.

import type {
  Amendment,
  BlockView,
  BoundKind,
  BoundRule,
  Candidate,
  Decided,
  EgressRule,
  HostPattern,
  PathRule,
  QuestionRule,
  Scope,
  Subject,
} from '@/ipc/bindings';

function rule(host: HostPattern, changes: Partial<EgressRule> = {}): EgressRule {
  return {
    origin: { id: 'offer', layer: 'amendment', source: 'amended by you' },
    protocol: 'tcp',
    host,
    port: 443,
    use: 'always',
    ...changes,
  } as EgressRule;
}

function candidate(number: number, scope: Scope, words: string, changes: Partial<Candidate> = {}): Candidate {
  return {
    number,
    words,
    scope,
    rule: rule({ name: 'registry.example' }),
    also_opens: 0,
    opens: [],
    needs_confirmation: false,
    ...changes,
  };
}

/** The rules of the card of {@link sampleView}. */
export function sampleCandidates(): Candidate[] {
  const place = 'npm.registry.example:443';
  return [
    candidate(1, 'once', `Let the 2 waiting connections to ${place} go on, once`),
    candidate(2, 'run', `Let this run connect to ${place} until it ends`),
    candidate(3, 'order', `Let every run of this work order connect to ${place}`),
    candidate(4, 'project', `Let every run in this project connect to ${place}`, { needs_confirmation: true }),
    candidate(5, 'run', 'Let this run connect to any name directly under registry.example until it ends', {
      rule: rule({ one_label_under: 'registry.example' }),
      also_opens: 3,
      opens: ['Every other name directly under registry.example on port 443'],
      needs_confirmation: true,
    }),
  ];
}

/** What {@link sampleView} is about. */
export const EGRESS: Extract<Subject, { type: 'egress' }> = {
  type: 'egress',
  protocol: 'tcp',
  host: { name: 'npm.registry.example' },
  port: 443,
  resolved: null,
};

/** An open block of five files in one folder, of which two wait to be opened. */
export function fileView(changes: Partial<BlockView> = {}): BlockView {
  const rule: PathRule = {
    origin: { id: 'offer', layer: 'amendment', source: 'amended by you' },
    path: '/srv/data',
    access: 'write',
  };
  return sampleView({
    subject: { type: 'file', access: 'write', path: '/srv/data/a.txt' },
    why: 'No rule allows writing /srv/data/a.txt',
    file: {
      folder: '/srv/data',
      paths: ['/srv/data/a.txt', '/srv/data/b.txt'],
      different: 5,
      target: 'absent',
      call: 'openat',
      once: 2,
      alone: false,
    },
    candidates: [
      candidate(1, 'once', 'Let the 2 waiting writes in /srv/data go on, once', { rule }),
      candidate(2, 'run', 'Let this run read and write everything in /srv/data until it ends', {
        rule,
        opens: ['writing every file and folder below it, those that come later too'],
      }),
    ],
    ...changes,
  } as Partial<BlockView>);
}

/** What raises a bound. */
function raise(number: number, scope: Scope, bound: BoundKind, limit: number, words: string): Candidate {
  const layer = scope === 'run' ? 'amendment' : scope === 'order' ? 'order' : 'project';
  const rule: BoundRule = { origin: { id: 'offer', layer, source: 'amended by you' }, bound, limit };
  return candidate(number, scope, words, {
    rule,
    needs_confirmation: scope === 'project',
    opens: scope === 'run' ? [] : [`the same in every other run ${scope === 'order' ? 'of this work order' : 'in this project'}`],
  });
}

const GIB = 2 ** 30;

/** A run that is paused at 4 GiB of memory. */
export function memoryView(changes: Partial<BlockView> = {}): BlockView {
  return sampleView({
    subject: { type: 'bound', bound: 'memory' },
    why: 'memory reached its bound: 4.2 GiB of 4 GiB',
    breach: { bound: 'memory', limit: 4 * GIB, seen: 4.25 * GIB },
    waiting: 1,
    seen: 1,
    last_hold: 1,
    holders: [],
    candidates: [
      raise(1, 'run', 'memory', 6 * GIB, 'Raise memory to 6 GiB for this run, and let it go on'),
      raise(2, 'run', 'memory', 8 * GIB, 'Raise memory to 8 GiB for this run, and let it go on'),
      raise(3, 'order', 'memory', 8 * GIB, 'Raise memory to 8 GiB for every run of this work order'),
      raise(4, 'project', 'memory', 8 * GIB, 'Raise memory to 8 GiB for every run in this project'),
    ],
    ...changes,
  } as Partial<BlockView>);
}

/** A run to which more than 512 processes are refused, and which goes on. */
export function processesView(changes: Partial<BlockView> = {}): BlockView {
  const later = ', from the next one on: what runs now keeps its limit';
  return sampleView({
    subject: { type: 'bound', bound: 'processes' },
    state: 'gone',
    why: 'processes reached its bound: 512 of 512; more are refused to the run, which goes on',
    breach: { bound: 'processes', limit: 512, seen: 512 },
    waiting: 0,
    seen: 1,
    last_hold: 1,
    holders: [],
    candidates: [
      raise(1, 'order', 'processes', 1032, `Raise processes to 1032 processes for every run of this work order${later}`),
      raise(2, 'project', 'processes', 1032, `Raise processes to 1032 processes for every run in this project${later}`),
    ],
    ...changes,
  } as Partial<BlockView>);
}

/** A question of an agent that waits. */
export function questionView(changes: Partial<BlockView> = {}): BlockView {
  const rule: QuestionRule = {
    origin: { id: 'offer', layer: 'amendment', source: 'amended by you' },
    agent: 'opencode',
    tool: 'execute',
  };
  return sampleView({
    subject: { type: 'question', agent: 'opencode', tool: 'execute', arguments: '{"command":"rm x"}' },
    why: 'opencode asks before it does this, by its own rules',
    question: { options: [{ answer: 'allow_once', words: 'Allow\u202e' }] },
    waiting: 1,
    seen: 1,
    last_hold: 1,
    holders: [],
    candidates: [
      candidate(1, 'once', 'Answer opencode yes, once', { rule: { ...rule, arguments: '{"command":"rm x"}' } }),
      candidate(2, 'run', 'Answer opencode yes whatever it asks about execute, until this run ends', {
        rule,
        needs_confirmation: true,
        opens: ['every question of opencode about execute, with whatever arguments'],
      }),
    ],
    ...changes,
  } as Partial<BlockView>);
}

/** An open block with two waiting connections. */
export function sampleView(changes: Partial<BlockView> = {}): BlockView {
  return {
    id: 'r7k2mqdx-b1',
    title: 'Update the dependencies',
    subject: EGRESS,
    state: 'open',
    why: 'No rule allows npm.registry.example:443',
    address_vetted: true,
    waiting: 2,
    seen: 2,
    last_hold: 2,
    revision: 1,
    first_at: '2026-01-02T10:00:00Z',
    last_at: '2026-01-02T10:00:05Z',
    holders: [{ pid: 41, argv: ['npm', 'install'] }],
    expect: 'h2-aa',
    candidates: sampleCandidates(),
    decided: null,
    ...changes,
  } as BlockView;
}

/** The same block after it was amended at 14:02. */
export function amendedView(changes: Partial<BlockView> = {}): BlockView {
  const state = { state: 'amended', amendment: 'r7k2mqdx-a1' } as Partial<BlockView>;
  return sampleView({ ...state, waiting: 0, expect: 'h2-bb', decided: 'amended by you at 14:02', ...changes });
}

/** A recorded decision. */
export function sampleAmendment(changes: Partial<Amendment> = {}): Amendment {
  return {
    id: 'r7k2mqdx-a1',
    block: 'r7k2mqdx-b1',
    scope: 'run',
    words: 'Let this run connect to npm.registry.example:443 until it ends',
    state: 'active',
    decided_at: '2026-01-02T14:02:00Z',
    revision: 2,
    decision: 'allow',
    ...changes,
  } as Amendment;
}

/** What the engine answers to a decision. */
export function sampleDecided(changes: Partial<Decided> = {}): Decided {
  return {
    amendment: sampleAmendment(),
    block: 'r7k2mqdx-b1',
    in_force: true,
    released: 2,
    refused: 0,
    cut: 0,
    ...changes,
  };
}
