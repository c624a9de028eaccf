import { flushPromises, mount } from '@vue/test-utils';
import type { VueWrapper } from '@vue/test-utils';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { reactive } from 'vue';
import type { Event, EventsRequest, RunView, SearchRequest } from '@/ipc/bindings';
import FeedTab from './FeedTab.vue';
import { BLOCK, Log, event, line } from './events.fixture';
import { ROW_HEIGHT } from './scale';

const engine = vi.hoisted(() => ({
  runEvents: vi.fn(),
  eventSearch: vi.fn(),
  runDetails: vi.fn(),
}));
vi.mock('@/ipc/call', () => ({ call: engine }));
const live = reactive({ connection: 'live' });
vi.mock('@/live/store', () => ({ useLive: () => live }));

const HEIGHT = 600;
let log: Log;
let wrapper: VueWrapper;

const run = (last_seq: number): RunView => ({ id: 'r7k2mqdx', last_seq, state: 'running', step: 'agent' }) as unknown as RunView;

/** Long polls that wait for news. */
let waiting: (() => void)[] = [];
/** What the run says from now on: told to the window, and to whoever waits for it. */
async function grow(end: number): Promise<void> {
  log.end = end;
  await wrapper.setProps({ run: run(end) });
  for (const answer of waiting.splice(0)) answer();
  await settle();
}

function answers(request: EventsRequest): Promise<unknown> {
  const kinds = [...request.kinds, ...(request.filter?.kinds ?? [])];
  const isAll = kinds.length === 0;
  const from = new Log(log.end, (seq) => made(seq), log.gaps, (seq) => isAll || kinds.includes(made(seq).kind));
  log.asked.push({ ...request, before: request.before ?? null, filter: request.filter ?? null });
  const value = from.answer({ ...request, before: request.before ?? null, filter: null });
  if (value.events.length === 0 && request.wait_ms > 0) return new Promise((resolve) => waiting.push(() => resolve(answers(request))));
  return Promise.resolve({ ok: true, value });
}
let made: (seq: number) => Event = line;

async function settle(): Promise<void> {
  for (let turn = 0; turn < 6; turn += 1) {
    await flushPromises();
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
async function open(end: number, make: (seq: number) => Event = line): Promise<void> {
  made = make;
  waiting = [];
  log = new Log(end, make);
  wrapper = mount(FeedTab, { props: { run: run(end) }, attachTo: document.body });
  await settle();
}

const grid = (): HTMLElement => wrapper.get<HTMLElement>('[data-testid="feed"]').element;
const rows = (): HTMLElement[] => wrapper.findAll<HTMLElement>('[data-testid="feed-row"]').map((row) => row.element);
const shown = (): string[] => rows().map((row) => row.dataset['seq'] ?? '');
function scrollTo(top: number): void {
  grid().scrollTop = top;
  grid().dispatchEvent(new Event('scroll'));
}
const press = (key: string): boolean => grid().dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));

beforeEach(() => {
  vi.spyOn(HTMLElement.prototype, 'clientHeight', 'get').mockReturnValue(HEIGHT);
  vi.spyOn(HTMLElement.prototype, 'scrollHeight', 'get').mockImplementation(function (this: HTMLElement) {
    return Number.parseFloat((this.firstElementChild as HTMLElement | null)?.style.height ?? '0') || 0;
  });
  engine.runEvents.mockImplementation(answers);
  engine.runDetails.mockResolvedValue({ ok: true, value: { steps: [] } });
});
afterEach(async () => {
  wrapper.unmount();
  await flushPromises();
});

describe('the feed of a million events', () => {
  it('opens at the end with few requests and few rows', async () => {
    await open(1_000_000);
    expect(shown().at(-1)).toBe('1000000');
    expect(rows().length).toBeLessThan(100);
    expect(rows().at(-1)?.textContent).toContain('line 1000000');
    expect(grid().getAttribute('aria-rowcount')).toBe('1000000');
    expect(rows().at(-1)?.getAttribute('aria-rowindex')).toBe('1000000');
    expect(log.asked.length).toBeLessThanOrEqual(4);
  });

  it('draws within the scroll event and reuses its elements', async () => {
    await open(1_000_000);
    const before = new Set(rows());
    scrollTo(4_000_000);
    expect(Math.abs(Number(shown()[0]) - 500_000)).toBeLessThan(100);
    for (const row of rows()) expect(before.has(row)).toBe(true);
    await settle();
    expect(rows().every((row) => row.textContent?.includes('line'))).toBe(true);
  });

  it('reaches the first row by key and by scroll bar, and steps exactly by wheel', async () => {
    await open(1_000_000);
    press('Home');
    await settle();
    expect(shown()[0]).toBe('1');
    grid().dispatchEvent(new WheelEvent('wheel', { deltaY: 10 * ROW_HEIGHT, cancelable: true }));
    expect(shown()[0]).toBe('11');
    press('End');
    await settle();
    expect(shown().at(-1)).toBe('1000000');
  });

  it('moves the chosen row by keys and tells it to assistive technology', async () => {
    await open(1_000);
    press('ArrowUp');
    await settle();
    const active = grid().getAttribute('aria-activedescendant');
    expect(document.getElementById(active ?? '')?.dataset['seq']).toBe('1000');
    for (const key of ['ArrowUp', 'PageUp']) {
      press(key);
      await settle();
    }
    const chosen = rows().filter((row) => row.getAttribute('aria-selected') === 'true');
    expect(chosen.map((row) => row.dataset['seq'])).toEqual(['975']);
  });
});

describe('a live run', () => {
  it('follows the end while it is seen', async () => {
    await open(1_000);
    await grow(5_000);
    expect(shown().at(-1)).toBe('5000');
    expect(wrapper.find('[data-testid="feed-pill"]').exists()).toBe(false);
  });

  it('holds its place and counts when the operator reads, without asking for what is new', async () => {
    await open(1_000);
    scrollTo(200 * ROW_HEIGHT);
    await settle();
    expect(shown()[0]).toBe('201');
    const asked = log.asked.length;
    await grow(4_000);
    expect(shown()[0]).toBe('201');
    expect(wrapper.get('[data-testid="feed-pill"]').text()).toBe('3,000 new');
    expect(log.asked.length - asked).toBeLessThanOrEqual(1);
    await wrapper.get('[data-testid="feed-pill"]').trigger('click');
    await settle();
    expect(shown().at(-1)).toBe('4000');
    expect(wrapper.find('[data-testid="feed-pill"]').exists()).toBe(false);
  });
});

describe('finding things', () => {
  const held = (seq: number): Event => (seq % 1_000 === 0 ? event({ kind: 'block', block: BLOCK }, seq) : line(seq));

  it('goes to the next block', async () => {
    await open(100_000, held);
    press('Home');
    await settle();
    await wrapper.findAll('button').find((button) => button.text() === 'Next block')?.trigger('click');
    await settle();
    expect(shown()).toContain('1000');
    expect(wrapper.text()).toContain('registry.example:443 is held');
  });

  it('narrows to a kind, keeps its place, and takes it off again', async () => {
    await open(100_000, held);
    await wrapper.findAll('button').find((button) => button.text() === 'Filter')?.trigger('click');
    await wrapper.findAll('select')[0]?.setValue('block');
    await settle();
    expect(shown().slice(-2)).toEqual(['99000', '100000']);
    expect(rows().length).toBeLessThan(100);
    await wrapper.get('[aria-label="Take off: Blocks"]').trigger('click');
    await settle();
    expect(shown().at(-1)).toBe('100000');
    expect(shown().at(-2)).toBe('99999');
  });

  it('searches in the engine and jumps to a hit', async () => {
    engine.eventSearch.mockImplementation((request: SearchRequest) =>
      Promise.resolve({ ok: true, value: { events: [line(5_000, request.text)], next: null, incomplete: false } }),
    );
    await open(1_000_000);
    await wrapper.get('[data-testid="feed-search"]').setValue('needle');
    await new Promise((resolve) => setTimeout(resolve, 350));
    await settle();
    await wrapper.get('aside ol button').trigger('click');
    await settle();
    expect(shown()).toContain('5000');
    expect(engine.eventSearch).toHaveBeenCalledTimes(1);
  });

  it('says why nothing arrives and tries again', async () => {
    engine.runEvents.mockResolvedValue({ ok: false, failure: { code: 'busy', message: 'another engine holds the data' } });
    await open(1_000);
    expect(wrapper.get('[role="alert"]').text()).toContain('another engine holds the data');
    engine.runEvents.mockImplementation(answers);
    await wrapper.get('[role="alert"] button').trigger('click');
    await settle();
    expect(rows().at(-1)?.textContent).toContain('line 1000');
  });

  it('goes on by itself when the engine is back', async () => {
    engine.runEvents.mockResolvedValue({ ok: false, failure: { code: 'internal', message: 'the engine is gone' } });
    await open(1_000);
    live.connection = 'reconnecting';
    await settle();
    engine.runEvents.mockImplementation(answers);
    live.connection = 'live';
    await settle();
    expect(wrapper.find('[role="alert"]').exists()).toBe(false);
    expect(rows().at(-1)?.textContent).toContain('line 1000');
  });
});

it('shows text of a run as text', async () => {
  await open(3, (seq) => line(seq, '<img src=x onerror=alert(1)>\u202eevil'));
  expect(grid().querySelector('img')).toBeNull();
  expect(rows()[0]?.textContent).toContain('<img src=x onerror=alert(1)>⟦U+202E⟧evil');
});
