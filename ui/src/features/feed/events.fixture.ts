import type { Amendment, Block, BlockState, BoundKind, Event, EventKind, Subject } from '@/ipc/bindings';
import type { Answer, Ask } from './source';

/** An event for tests. */
export function event(kind: EventKind, seq = 1, more: Partial<Pick<Event, 'step' | 'process'>> = {}): Event {
  return { v: 1, run: 'r7k2mqdx', seq, at: '2026-03-01T10:20:30.405Z', ...more, ...kind } as Event;
}

export function line(seq: number, text = `line ${seq}`): Event {
  return event({ kind: 'output', stream: 'stdout', text }, seq);
}

export function gap(from: number, to: number): Event {
  return event({ kind: 'gap', from, to, count: to - from + 1, reason: 'the byte budget of stored events' }, from);
}

export const SUBJECT: Extract<Subject, { type: 'egress' }> = { type: 'egress', protocol: 'tcp', host: { name: 'registry.example' }, port: 443 };

export const FILE: Extract<Subject, { type: 'file' }> = { type: 'file', access: 'write', path: '/srv/data/a.txt' };

export const BLOCK: Block = {
  id: 'r7k2mqdx-b1',
  subject: SUBJECT,
  why: 'no rule allows it',
  address_vetted: true,
  waiting: 2,
  seen: 3,
  last_hold: 3,
  revision: 1,
  first_at: '2026-03-01T10:20:30Z',
  last_at: '2026-03-01T10:20:31Z',
  holders: [],
  state: 'open',
};

/** A block of a run that reached a bound. */
export function atBound(bound: BoundKind, state: BlockState): Block {
  const figures = bound === 'memory' ? { limit: 4 * 2 ** 30, seen: 4.2 * 2 ** 30 } : { limit: 512, seen: 512 };
  return { ...BLOCK, subject: { type: 'bound', bound }, breach: { bound, ...figures }, ...state };
}

export const AMENDMENT: Amendment = {
  id: 'r7k2mqdx-a1',
  block: 'r7k2mqdx-b1',
  scope: 'run',
  words: 'Let this run connect to registry.example:443 until it ends',
  state: 'active',
  decided_at: '2026-03-01T10:20:32Z',
  revision: 2,
  decision: 'allow',
};

/** A run's log as the engine answers from it: what was dropped has its gap, and pages are cut like its own. */
export class Log {
  readonly asked: Ask[] = [];

  constructor(
    public end: number,
    private readonly make: (seq: number) => Event = line,
    public gaps: readonly [number, number][] = [],
    private readonly passes: (seq: number) => boolean = () => true,
  ) {}

  answer(ask: Ask): Answer {
    this.asked.push(ask);
    if (ask.before !== null) return this.page(ask.before, ask.limit);
    const events: Event[] = [];
    let seq = ask.after + 1;
    while (seq <= this.end && events.length < ask.limit) {
      const dropped = this.gaps.find(([from, to]) => from <= seq && seq <= to);
      if (dropped !== undefined) {
        events.push(gap(...dropped));
        seq = dropped[1] + 1;
      } else {
        if (this.passes(seq)) events.push(this.make(seq));
        seq += 1;
      }
    }
    return { events, cursor: Math.max(ask.after, seq - 1), ended: false, has_older: ask.after > 0 };
  }

  private page(before: number, limit: number): Answer {
    const events: Event[] = [];
    let seq = Math.min(before - 1, this.end);
    for (; seq >= 1 && events.length < limit; seq -= 1) if (this.passes(seq)) events.unshift(this.make(seq));
    return { events, cursor: seq + 1, ended: false, has_older: seq >= 1 };
  }
}
