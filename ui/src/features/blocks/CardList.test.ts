import { flushPromises, mount } from '@vue/test-utils';
import { createPinia, setActivePinia } from 'pinia';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { defineComponent, h, nextTick } from 'vue';
import { createMemoryHistory, createRouter } from 'vue-router';
import { handleKey } from '@/app/keys';
import { inboxSentence } from '@/app/navigation';
import type { BlockId, BlockView } from '@/ipc/bindings';
import { call } from '@/ipc/call';
import { useLive } from '@/live/store';
import BlocksTab from './BlocksTab.vue';
import InboxScreen from './InboxScreen.vue';
import { amendedView, memoryView, sampleDecided, sampleView } from './sample.fixture';

vi.mock('@/ipc/call', () => ({
  call: { blockAmend: vi.fn(), blockDeny: vi.fn(), blockShow: vi.fn(), blockList: vi.fn(), undo: vi.fn(), runEvents: vi.fn() },
}));

const api = vi.mocked(call);
const ok = <T>(value: T) => ({ ok: true as const, value });
const page = defineComponent({ render: () => h('div') });

function blockOf(number: number): BlockView {
  const seconds = String(number % 60).padStart(2, '0');
  const minutes = String(Math.floor(number / 60)).padStart(2, '0');
  return sampleView({ id: `r7k2mqdx-b${String(number)}`, first_at: `2026-01-02T10:${minutes}:${seconds}Z` });
}

function open(views: readonly BlockView[]): void {
  const live = useLive();
  live.blocks = new Map(views.map((view) => [view.id, view]));
  live.connection = 'live';
}

async function show(path = '/inbox', component: typeof InboxScreen | typeof BlocksTab = InboxScreen, props = {}) {
  const router = createRouter({
    history: createMemoryHistory(),
    routes: [
      { path: '/inbox/:block?', name: 'inbox', component: InboxScreen },
      { path: '/run/:id/:tab?', name: 'run', component: page },
      { path: '/policy', name: 'policy', component: page },
    ],
  });
  await router.push(path);
  const wrapper = mount(component as never, { props: props as never, global: { plugins: [router] }, attachTo: document.body });
  await flushPromises();
  return { wrapper, router };
}

const cards = () => [...document.querySelectorAll<HTMLElement>('[data-testid="block-card"]')];
const ids = (): BlockId[] => cards().map((card) => card.dataset['block'] ?? '');
async function key(name: string, repeat = false): Promise<void> {
  const event = new KeyboardEvent('keydown', { key: name, bubbles: true, cancelable: true, repeat });
  (document.activeElement ?? document.body).dispatchEvent(event);
  await flushPromises();
}
async function pass(millis: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(millis);
  await flushPromises();
}

let shown: Awaited<ReturnType<typeof show>> | null = null;

beforeEach(() => {
  vi.useFakeTimers({ now: Date.parse('2026-01-02T10:30:00Z') });
  setActivePinia(createPinia());
  vi.spyOn(HTMLElement.prototype, 'offsetHeight', 'get').mockReturnValue(300);
  vi.spyOn(HTMLElement.prototype, 'clientHeight', 'get').mockReturnValue(900);
  vi.spyOn(HTMLElement.prototype, 'clientWidth', 'get').mockReturnValue(800);
  document.addEventListener('keydown', handleKey);
  api.runEvents.mockResolvedValue(ok({ events: [], cursor: 0, ended: false }) as never);
  api.blockAmend.mockResolvedValue(ok(sampleDecided()));
  api.blockShow.mockImplementation(({ block }) => Promise.resolve(ok(amendedView({ id: block }))));
});
afterEach(() => {
  shown?.wrapper.unmount();
  shown = null;
  document.removeEventListener('keydown', handleKey);
  vi.clearAllMocks();
  vi.useRealTimers();
});

describe('the inbox', () => {
  it('says what would appear while nothing is held', async () => {
    open([]);
    shown = await show();
    expect(shown.wrapper.text()).toContain('Nothing is held');
    expect(shown.wrapper.text()).toContain('its card appears here');
  });

  it('puts 500 blocks on the page as a few cards, oldest first', async () => {
    open(Array.from({ length: 500 }, (_, at) => blockOf(500 - at)));
    const began = performance.now();
    shown = await show();
    expect(shown.wrapper.text()).toContain('500 blocks wait, oldest first.');
    expect(cards().length).toBeGreaterThan(1);
    expect(cards().length).toBeLessThan(20);
    expect(ids()[0]).toBe('r7k2mqdx-b1');
    expect(performance.now() - began).toBeLessThan(5000);
  });

  it('appends a card that arrives and leaves the focus where it is', async () => {
    open([blockOf(5)]);
    shown = await show();
    await key('b');
    const before = document.activeElement;
    expect((before as HTMLElement).dataset['block']).toBe('r7k2mqdx-b5');
    open([blockOf(5), blockOf(1), blockOf(9)]);
    await flushPromises();
    expect(ids()).toEqual(['r7k2mqdx-b5', 'r7k2mqdx-b1', 'r7k2mqdx-b9']);
    expect(document.activeElement).toBe(before);
  });

  it('stops no run by a bare key: d on one that waits at its bound asks first', async () => {
    open([memoryView({ id: 'r7k2mqdx-b1' })]);
    shown = await show();
    await key('b');
    await pass(600);
    await key('d');
    await pass(600);
    expect(api.blockDeny).not.toHaveBeenCalled();
    expect(document.querySelector('[data-testid="deny-reason"]')).not.toBeNull();
  });

  it('takes a only on the focused card, half a second after it appeared, and not from a held key', async () => {
    open([blockOf(1)]);
    shown = await show();
    await pass(600);
    await key('a');
    expect(api.blockAmend).not.toHaveBeenCalled();
    await key('b');
    await key('a', true);
    expect(api.blockAmend).not.toHaveBeenCalled();
    open([sampleView({ ...blockOf(1), revision: 2, expect: 'h2-new' })]);
    await nextTick();
    await key('a');
    expect(api.blockAmend).not.toHaveBeenCalled();
    await pass(500);
    await key('a');
    expect(api.blockAmend).toHaveBeenCalledTimes(1);
  });

  it('keeps a decided card in its place, undoes it by u, and goes on with b', async () => {
    open([blockOf(1), blockOf(2)]);
    shown = await show();
    await pass(500);
    await key('b');
    await key('a');
    open([blockOf(2)]);
    await flushPromises();
    expect(ids()).toEqual(['r7k2mqdx-b1', 'r7k2mqdx-b2']);
    expect(shown.wrapper.text()).toContain('1 block waits');
    await key('b');
    expect((document.activeElement as HTMLElement).dataset['block']).toBe('r7k2mqdx-b2');
    api.undo.mockResolvedValue(ok(sampleDecided()));
    await key('u');
    expect(api.undo).toHaveBeenCalledWith({ amendment: 'r7k2mqdx-a1' });
  });

  it('says of a card that another surface decided who did', async () => {
    open([blockOf(1), blockOf(2)]);
    shown = await show();
    open([blockOf(2)]);
    await flushPromises();
    expect(ids()).toEqual(['r7k2mqdx-b1', 'r7k2mqdx-b2']);
    expect(shown.wrapper.text()).toContain('Already amended by you at 14:02.');
    const clear = shown.wrapper.findAll('button').find((button) => button.text().startsWith('Clear'));
    await clear?.trigger('click');
    expect(ids()).toEqual(['r7k2mqdx-b2']);
  });

  it('walks over more cards than the page holds, and comes around', async () => {
    open(Array.from({ length: 30 }, (_, at) => blockOf(at + 1)));
    shown = await show();
    for (let at = 1; at <= 31; at += 1) await key('b');
    expect((document.activeElement as HTMLElement).dataset['block']).toBe('r7k2mqdx-b1');
    expect(cards().length).toBeLessThan(20);
  });

  it('goes to the card of a link, also when it waits no more', async () => {
    open([blockOf(1), blockOf(2)]);
    shown = await show('/inbox/r7k2mqdx-b2');
    expect((document.activeElement as HTMLElement).dataset['block']).toBe('r7k2mqdx-b2');
    shown.wrapper.unmount();
    shown = await show('/inbox/r7k2mqdx-b7');
    expect(ids()[0]).toBe('r7k2mqdx-b7');
    expect(document.querySelector('[data-testid="decision"]')?.textContent).toContain('Amended by you at 14:02.');
  });

  it('forgets why a link led to it when it is left', async () => {
    open([]);
    inboxSentence.value = 'There is no such block.';
    shown = await show();
    expect(inboxSentence.value).not.toBeNull();
    shown.wrapper.unmount();
    expect(inboxSentence.value).toBeNull();
    shown = null;
  });
});

describe('the blocks of a run', () => {
  const run = { id: 'r7k2mqdx', title: 'Update', state: 'running', step: 'agent', open_blocks: 1 };

  it('are those that wait, then the decided ones with what became of them', async () => {
    const expired = { state: 'expired', waiting: 0, decided: 'given up at 14:02 without an answer' } as const;
    api.blockList.mockResolvedValue(
      ok({ blocks: [blockOf(1), amendedView({ id: 'r7k2mqdx-b2' }), sampleView({ id: 'r7k2mqdx-b3', ...expired })] }),
    );
    open([blockOf(1), sampleView({ id: 'other000-b1' })]);
    shown = await show('/run/r7k2mqdx/blocks', BlocksTab, { run });
    expect(ids()).toHaveLength(3);
    expect(ids()[0]).toBe('r7k2mqdx-b1');
    expect(shown.wrapper.text()).toContain('1 block waits; 2 others decided or gone.');
    expect(shown.wrapper.text()).toContain('Amended by you at 14:02.');
    expect(shown.wrapper.text()).toContain('Expired: nothing waits any more.');
    expect(shown.wrapper.text()).not.toContain('Denied');
  });

  it('put a few of many decided ones on the page', async () => {
    const blocks = Array.from({ length: 1000 }, (_, at) => amendedView({ id: `r7k2mqdx-b${String(at)}` }));
    api.blockList.mockResolvedValue(ok({ blocks }));
    open([]);
    shown = await show('/run/r7k2mqdx/blocks', BlocksTab, { run });
    expect(cards().length).toBeGreaterThan(1);
    expect(cards().length).toBeLessThan(20);
  });
});
