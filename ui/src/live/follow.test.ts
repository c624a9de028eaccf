import { beforeEach, describe, expect, it, vi } from 'vitest';
import type { Failure, Hints, RunView } from '@/ipc/bindings';
import type { Result } from '@/ipc/call';
import { aBlock, aQueue, aRun } from '@/lib/samples.fixture';
import { Follow } from './follow';
import type { Asks, Connection } from './follow';

const GONE: Failure = { code: 'environment', message: 'The engine is gone' };
const ok = <T>(value: T): Result<T> => ({ ok: true, value });
const hints = (some: Partial<Hints>): Hints => ({ from: null, to: '', resync: false, runs: [], orders: [], blocks: [], ...some });

/** An engine whose answers a test decides; `watch` waits for the test. */
class Engine {
  runs = new Map<string, RunView>([['rone', aRun()]]);
  /** Open ones that are too old for the first page. */
  old: RunView[] = [];
  cursor = '1';
  down = false;
  asked: string[] = [];
  waiting: { cursor: string | null; answer: (hints: Result<Hints>) => void }[] = [];
  held: (() => void)[] | null = null;

  #say<T>(name: string, answer: () => Result<T>): Promise<Result<T>> {
    this.asked.push(name);
    if (this.down) return Promise.resolve({ ok: false, failure: GONE });
    const said = answer();
    if (!this.held) return Promise.resolve(said);
    return new Promise((resolve) => this.held?.push(() => resolve(said)));
  }

  readonly asks: Asks = {
    runList: ({ open }) =>
      open
        ? this.#say('runList open', () => ok({ runs: this.old, older: 0, cursor: this.cursor }))
        : this.#say('runList', () => ok({ runs: [...this.runs.values()], older: this.old.length, cursor: this.cursor })),
    runShow: ({ run }) =>
      this.#say(`runShow ${run}`, () => {
        const view = this.runs.get(run);
        return view ? ok(view) : { ok: false, failure: { code: 'not_found', message: 'no such run' } };
      }),
    blockList: () => this.#say('blockList', () => ok({ blocks: [] })),
    blockShow: ({ block }) => this.#say(`blockShow ${block}`, () => ok(aBlock({ id: block }))),
    orderList: () => this.#say('orderList', () => ok({ orders: [], faults: [], file_faults: [], queue: aQueue() })),
    watch: ({ cursor }) => {
      if (this.down) return Promise.resolve({ ok: false, failure: GONE });
      return new Promise((answer) => this.waiting.push({ cursor: cursor ?? null, answer }));
    },
  };

  answer(some: Partial<Hints>): void {
    const question = this.waiting.shift();
    this.cursor = some.to ?? this.cursor;
    question?.answer(ok(hints({ from: question.cursor, ...some })));
  }
  fail(): void {
    this.down = true;
    this.waiting.shift()?.answer({ ok: false, failure: GONE });
  }
}

describe('following the engine', () => {
  let engine: Engine;
  let follow: Follow;
  let seen: Connection[];
  const settle = (millis = 0): Promise<unknown> => vi.advanceTimersByTimeAsync(millis);

  beforeEach(async () => {
    vi.useFakeTimers();
    engine = new Engine();
    seen = [];
    const clock = {
      now: () => Date.now(),
      after: (millis: number, f: () => void) => {
        const timer = setTimeout(f, millis);
        return () => clearTimeout(timer);
      },
    };
    follow = new Follow(engine.asks, clock, { changed: () => undefined, connection: (now) => seen.push(now) });
    follow.start();
    await settle(1);
    engine.asked = [];
    return () => {
      follow.stop();
      vi.useRealTimers();
    };
  });

  it('reads the lists and watches from before they were read', () => {
    expect(follow.board.runs.has('rone')).toBe(true);
    expect(engine.waiting.map(({ cursor }) => cursor)).toEqual(['1']);
    expect(seen).toEqual(['live']);
  });

  it('reads again only what a hint names', async () => {
    engine.runs.set('rone', aRun({ state: 'review', head: 'a', base: 'b', agent_succeeded: true }));
    engine.answer({ to: '2', runs: [{ run: 'rone', last_seq: 11, state: 'review' }] });
    await settle(1);
    expect(engine.asked).toContain('runShow rone');
    expect(engine.asked).not.toContain('runList');
    expect(follow.board.runs.get('rone')?.state).toBe('review');
    expect(engine.waiting.map(({ cursor }) => cursor)).toEqual(['2']);
  });

  it('reads a run that only wrote at most once a second, and misses no last word', async () => {
    for (let at = 2; at < 22; at += 1) {
      engine.answer({ to: String(at), runs: [{ run: 'rone', last_seq: at, state: 'running' }] });
      await settle(50);
    }
    expect(follow.board.runs.get('rone')?.last_seq).toBe(21);
    expect(engine.asked.filter((name) => name === 'runShow rone').length).toBeLessThanOrEqual(2);
    engine.runs.set('rone', aRun({ last_seq: 22, title: 'Its last word' }));
    engine.answer({ to: '22', runs: [{ run: 'rone', last_seq: 22, state: 'running' }] });
    await settle(1100);
    expect(follow.board.runs.get('rone')?.title).toBe('Its last word');
  });

  it('reads a block and its run when a block changed', async () => {
    engine.answer({ to: '2', blocks: ['rone-b1'] });
    await settle(1);
    expect(engine.asked.toSorted()).toEqual(['blockShow rone-b1', 'runShow rone']);
    expect(follow.board.blocks.has('rone-b1')).toBe(true);
  });

  it('lists anew after a resync and after a hole', async () => {
    engine.runs.set('rtwo', aRun({ id: 'rtwo' }));
    engine.answer({ from: null, to: '7', resync: true });
    await settle(1);
    expect(engine.asked.filter((name) => name === 'runList')).toHaveLength(1);
    expect(follow.board.runs.has('rtwo')).toBe(true);
    engine.answer({ from: '5', to: '9' });
    await settle(1);
    expect(engine.asked.filter((name) => name === 'runList')).toHaveLength(2);
  });

  it('shows an open run that is older than the page', async () => {
    engine.old = [aRun({ id: 'rold' })];
    engine.answer({ from: null, to: '7', resync: true });
    await settle(1);
    expect(follow.board.runs.has('rold')).toBe(true);
    expect(follow.board.older).toBe(1);
  });

  it('never has more than ten questions under way', async () => {
    engine.held = [];
    engine.answer({ to: '2', blocks: Array.from({ length: 40 }, (_, at) => `rone-b${at}`) });
    await settle(5);
    expect(engine.held).toHaveLength(10);
    while (engine.held && engine.held.length > 0) {
      engine.held.splice(0).forEach((say) => say());
      await settle(5);
      expect(engine.held.length).toBeLessThanOrEqual(10);
    }
    expect(follow.board.blocks.size).toBe(40);
  });

  it('forgets a run that was deleted elsewhere', async () => {
    engine.runs.delete('rone');
    engine.answer({ to: '2', runs: [{ run: 'rone', last_seq: 12, state: 'discarded' }] });
    await settle(1);
    expect(follow.board.runs.has('rone')).toBe(false);
  });

  it('keeps the last known state while the engine is gone, says so, and goes on from its cursor', async () => {
    engine.fail();
    await settle(1);
    expect(seen.at(-1)).toBe('reconnecting');
    await settle(3000);
    expect(seen.at(-1)).toEqual({ failed: GONE });
    expect(follow.board.runs.has('rone')).toBe(true);
    engine.down = false;
    await settle(12_000);
    expect(engine.waiting.map(({ cursor }) => cursor)).toEqual(['1']);
    engine.answer({ to: '2' });
    await settle(300);
    expect(seen.at(-1)).toBe('live');
  });

  it('does not ask in a tight circle when there is nothing to say', async () => {
    engine.answer({ to: '1' });
    await settle(100);
    expect(engine.waiting).toHaveLength(0);
    await settle(200);
    expect(engine.waiting).toHaveLength(1);
  });

  it('asks again for what it could not read', async () => {
    engine.answer({ to: '2', blocks: ['rone-b1'] });
    engine.down = true;
    await settle(1);
    expect(follow.board.blocks.size).toBe(0);
    engine.down = false;
    await settle(12_000);
    expect(follow.board.blocks.has('rone-b1')).toBe(true);
  });

  it('survives an answer that it cannot understand', async () => {
    vi.spyOn(console, 'error').mockReturnValue();
    engine.runs.set('rone', null as unknown as RunView);
    engine.asks.runShow = () => Promise.resolve(ok(null as unknown as RunView));
    engine.answer({ to: '2', runs: [{ run: 'rone', last_seq: 12, state: 'review' }] });
    await settle(1);
    engine.answer({ to: '3', runs: null as unknown as [] });
    await settle(1);
    expect(seen.at(-1)).toBe('reconnecting');
    await settle(1000);
    expect(engine.waiting).toHaveLength(1);
  });

  it('shows nothing of one engine under another', async () => {
    engine.held = [];
    engine.answer({ to: '2', blocks: ['rone-b1'] });
    await settle(5);
    const late = engine.held;
    engine.held = null;
    engine.runs = new Map([['demo', aRun({ id: 'demo' })]]);
    follow.reset();
    await settle(5);
    late.forEach((say) => say());
    await settle(5);
    expect([...follow.board.runs.keys()]).toEqual(['demo']);
    expect(follow.board.blocks.size).toBe(0);
  });
});
