import { flushPromises, mount } from '@vue/test-utils';
import { createPinia, setActivePinia } from 'pinia';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { h, nextTick, shallowRef } from 'vue';
import { createMemoryHistory, createRouter } from 'vue-router';
import type { BlockView } from '@/ipc/bindings';
import { call } from '@/ipc/call';
import BlockCard from './BlockCard.vue';
import { useCards } from './cards';
import { EGRESS, amendedView, fileView, memoryView, processesView, sampleAmendment, sampleDecided, sampleView } from './sample.fixture';

vi.mock('@/ipc/call', () => ({
  call: {
    blockAmend: vi.fn(),
    blockDeny: vi.fn(),
    blockShow: vi.fn(),
    blockList: vi.fn(),
    undo: vi.fn(),
    runStop: vi.fn(),
    runEvents: vi.fn(),
  },
}));

const api = vi.mocked(call);
const page = { render: () => h('div') };
const router = createRouter({
  history: createMemoryHistory(),
  routes: [
    { path: '/', component: page },
    { path: '/run/:id/:tab?', name: 'run', component: page },
    { path: '/policy', name: 'policy', component: page },
  ],
});
const ok = <T>(value: T) => ({ ok: true as const, value });
const no = (code: 'stale' | 'already_decided' | 'environment', message: string) => ({
  ok: false as const,
  failure: { code, message },
});

function show(first: BlockView) {
  const view = shallowRef(first);
  const wrapper = mount({ setup: () => () => h(BlockCard, { block: view.value }) }, {
    global: { plugins: [router] },
    attachTo: document.body,
  });
  return { wrapper, view };
}
const body = (id: string) => document.querySelector<HTMLElement>(`[data-testid="${id}"]`);
async function press(id: string): Promise<void> {
  body(id)?.click();
  await flushPromises();
}
async function pass(millis: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(millis);
  await flushPromises();
}

let shown: ReturnType<typeof show> | null = null;

beforeEach(() => {
  vi.useFakeTimers({ now: Date.parse('2026-01-02T10:01:00Z') });
  setActivePinia(createPinia());
  api.runEvents.mockResolvedValue(ok({ events: [], cursor: 0, ended: false, first: null, has_older: false }) as never);
  api.blockAmend.mockResolvedValue(ok(sampleDecided()));
  api.blockShow.mockResolvedValue(ok(amendedView()));
});
afterEach(() => {
  shown?.wrapper.unmount();
  shown = null;
  vi.clearAllMocks();
  vi.useRealTimers();
});

describe('the card of a block', () => {
  it('shows the facts, and none of what a cage wrote as anything but marks', async () => {
    shown = show(
      sampleView({
        title: `${'T'.repeat(10_000)}<img src=x onerror=alert(1)>`,
        subject: { ...EGRESS, host: { name: 'evil\u202emoc.example' } },
        holders: [{ pid: 41, argv: ['sh', '-c', 'x\nAmend\u001b[2J'] }],
        why: 'No rule allows it\u200b',
      }),
    );
    await nextTick();
    const text = shown.wrapper.text();
    expect(text).toContain('U+202E');
    expect(text).toContain('(pid 41)');
    expect(text).toContain('Network wall. No rule allows it');
    expect(text).toContain('2 connections');
    expect(text).toContain('Let this run connect to npm.registry.example:443 until it ends');
    expect(text).not.toMatch(/[\u202e\u200b\u001b]/);
    expect(text).not.toContain('T'.repeat(200));
    expect(document.querySelector('img')).toBeNull();
  });

  it('names the step of the event that opened it', async () => {
    const event = { v: 1, run: 'r9step00', seq: 4, at: '2026-01-02T10:00:00Z', step: 'agent', kind: 'block' };
    const block = sampleView({ id: 'r9step00-b1' });
    api.runEvents.mockResolvedValue(ok({ events: [{ ...event, block }], cursor: 4, ended: false }) as never);
    shown = show(block);
    await flushPromises();
    expect(shown.wrapper.text()).toContain(', step agent');
  });

  it('amends by the narrowest rule, after half a second and once', async () => {
    shown = show(sampleView());
    await pass(400);
    await press('amend');
    expect(api.blockAmend).not.toHaveBeenCalled();
    await pass(100);
    body('amend')?.click();
    body('amend')?.click();
    await flushPromises();
    expect(api.blockAmend).toHaveBeenCalledTimes(1);
    expect(api.blockAmend).toHaveBeenCalledWith({
      block: 'r7k2mqdx-b1',
      expect: 'h2-aa',
      scope: 'run',
      rule: 2,
      confirmed: false,
      expires: null,
      surface: 'window',
    });
    expect(body('decision')?.textContent).toContain('2 actions let go');
    expect(body('amendment-link')?.getAttribute('href')).toContain('amendment=r7k2mqdx-a1');
  });

  it('settles anew when what it is bound to has changed', async () => {
    shown = show(sampleView());
    await pass(2500);
    shown.view.value = sampleView({ waiting: 3, seen: 3, expect: 'h3-cc' });
    await nextTick();
    await press('amend');
    expect(api.blockAmend).not.toHaveBeenCalled();
    await pass(500);
    await press('amend');
    expect(api.blockAmend).toHaveBeenCalledWith(expect.objectContaining({ expect: 'h3-cc' }));
  });

  it('can be undone for ten seconds, with the seconds counting down', async () => {
    api.undo.mockResolvedValue(ok(sampleDecided({ cut: 1, amendment: sampleAmendment({ state: 'revoked' }) })));
    shown = show(sampleView());
    await pass(500);
    await press('amend');
    expect(body('undo')?.textContent).toContain('10 s');
    await pass(3000);
    expect(body('undo')?.textContent).toContain('7 s');
    api.blockShow.mockResolvedValue(ok(sampleView({ state: 'gone', waiting: 0 })));
    await press('undo');
    expect(api.undo).toHaveBeenCalledWith({ amendment: 'r7k2mqdx-a1' });
    expect(shown.wrapper.text()).toContain('Taken back');
  });

  it('takes the undo away when its time is over', async () => {
    shown = show(sampleView());
    await pass(500);
    await press('amend');
    await pass(9999);
    expect(body('undo')).not.toBeNull();
    await pass(1);
    expect(body('undo')).toBeNull();
    expect(await useCards().undo('r7k2mqdx-b1')).toBe('ignored');
  });

  it('asks a second time for a rule that opens more, and names what it opens', async () => {
    shown = show(sampleView());
    await pass(500);
    const cards = useCards();
    expect(await cards.amend('r7k2mqdx-b1', { number: 5, expiry: 'hour', confirmed: false })).toBe('confirm');
    await flushPromises();
    const dialog = body('amend-confirm-dialog')?.textContent ?? '';
    expect(dialog).toContain('Every other name directly under registry.example');
    expect(dialog).toContain('Would also have allowed 3 earlier actions');
    expect(dialog).toContain('for 1 hour');
    await press('amend-confirm');
    expect(api.blockAmend).not.toHaveBeenCalled();
    await pass(500);
    await press('amend-confirm');
    expect(api.blockAmend).toHaveBeenCalledWith(
      expect.objectContaining({ scope: 'run', rule: 5, confirmed: true, expires: '2026-01-02T11:01:01.000Z' }),
    );
  });

  it('amends by another rule of its menu, with an expiry that fits', async () => {
    shown = show(sampleView());
    await pass(500);
    await press('amend-menu');
    const text = document.body.textContent ?? '';
    expect(text).toContain('Let every run of this work order connect to npm.registry.example:443');
    expect(text).toContain('Would also have allowed 3 earlier actions');
    const order = document.querySelector<HTMLInputElement>('[data-scope="order"] input');
    order?.dispatchEvent(new Event('change'));
    await flushPromises();
    const expiry = body('amend-expiry') as HTMLSelectElement;
    expect([...expiry.options].map((option) => option.textContent?.trim())).toEqual([
      'never expires',
      'for 1 hour',
      'for 1 day',
      'for 30 days',
    ]);
    expiry.value = 'day';
    expiry.dispatchEvent(new Event('change'));
    await press('amend-chosen');
    expect(api.blockAmend).toHaveBeenCalledWith({
      block: 'r7k2mqdx-b1',
      expect: 'h2-aa',
      scope: 'order',
      rule: 3,
      confirmed: false,
      expires: '2026-01-03T10:01:00.500Z',
      surface: 'window',
    });
  });

  it('takes nothing from Escape', async () => {
    shown = show(sampleView());
    await pass(500);
    await press('amend-menu');
    body('amend-option')?.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true }));
    await pass(600_000);
    expect(body('amend-option')).toBeNull();
    expect(api.blockAmend).not.toHaveBeenCalled();
    expect(api.blockDeny).not.toHaveBeenCalled();
  });

  it('makes no rule when the question is closed, and closes it when the card changes', async () => {
    shown = show(sampleView());
    await pass(500);
    const cards = useCards();
    await cards.amend('r7k2mqdx-b1', { number: 4, expiry: 'end', confirmed: false });
    await flushPromises();
    shown.view.value = sampleView({ revision: 9, expect: 'h2-zz' });
    await flushPromises();
    expect(cards.confirming).toBeNull();
    await pass(60_000);
    expect(api.blockAmend).not.toHaveBeenCalled();
    expect(shown.wrapper.text()).toContain('This card has changed since it was drawn.');
  });

  it('denies with the reason that the agent is told', async () => {
    const amendment = sampleAmendment({ decision: 'deny', reason: 'use the mirror', words: 'Refuse it' } as never);
    api.blockDeny.mockResolvedValue(ok(sampleDecided({ amendment, released: 0, refused: 2 })));
    api.blockShow.mockResolvedValue(
      ok(sampleView({ state: 'denied', by: 'operator', reason: 'use the mirror', decided: 'denied by you' } as never)),
    );
    shown = show(sampleView());
    await pass(500);
    await press('deny-tell');
    const box = body('deny-reason') as HTMLTextAreaElement;
    box.value = 'use the mirror';
    box.dispatchEvent(new Event('input'));
    await pass(500);
    box.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', ctrlKey: true, bubbles: true }));
    await flushPromises();
    expect(api.blockDeny).toHaveBeenCalledWith({ block: 'r7k2mqdx-b1', expect: 'h2-aa', reason: 'use the mirror', surface: 'window' });
    expect(body('decision')?.textContent).toContain('2 actions refused');
    expect(shown.wrapper.text()).toContain('The agent was told: use the mirror');
  });

  it('draws itself anew on a stale answer, and the click does nothing else', async () => {
    api.blockAmend.mockResolvedValue(no('stale', 'r7k2mqdx-b1 is not as it was shown any more'));
    api.blockShow.mockResolvedValue(ok(sampleView({ revision: 2, expect: 'h2-dd' })));
    shown = show(sampleView());
    await pass(500);
    await press('amend');
    expect(shown.wrapper.text()).toContain('This card has changed since it was drawn.');
    expect(body('decision')).toBeNull();
    await press('amend');
    expect(api.blockAmend).toHaveBeenCalledTimes(1);
  });

  it('says who was faster', async () => {
    api.blockAmend.mockResolvedValue(no('already_decided', 'r7k2mqdx-b1 was already amended by you at 14:02'));
    shown = show(sampleView());
    await pass(500);
    await press('amend');
    expect(body('decision')?.textContent).toBe('Already amended by you at 14:02.');
    expect(body('undo')).toBeNull();
  });

  it('keeps a failure to apply on the card', async () => {
    api.blockAmend.mockResolvedValue(no('environment', 'r7k2mqdx-a1 is recorded, but the supervisor did not confirm it'));
    shown = show(sampleView());
    await pass(500);
    await press('amend');
    expect(shown.wrapper.text()).toContain('the supervisor did not confirm it');
    expect(body('decision')?.textContent).toContain('Amended by you at 14:02.');
  });

  it('asks before a run is stopped', async () => {
    api.runStop.mockResolvedValue(ok({} as never));
    shown = show(sampleView());
    await pass(500);
    await press('stop-run');
    expect(api.runStop).not.toHaveBeenCalled();
    const word = [...document.querySelectorAll('[role="dialog"] button')].find((b) => b.textContent === 'Stop run');
    (word as HTMLElement).click();
    await flushPromises();
    expect(api.runStop).toHaveBeenCalledWith({ run: 'r7k2mqdx' });
  });

  it('raises the bound of a paused run by the narrowest rule, named on the button', async () => {
    api.blockAmend.mockResolvedValue(ok(sampleDecided({ released: 1 })));
    api.blockShow.mockResolvedValue(ok(memoryView({ state: 'amended', amendment: 'r7k2mqdx-a1', waiting: 0 } as never)));
    shown = show(memoryView());
    const text = shown.wrapper.text();
    expect(text).toContain('Paused');
    expect(text).toContain('4.2 GiB of 4 GiB');
    expect(text).toContain('256 MiB over its bound');
    expect(text).toContain('The run is paused until you decide.');
    expect(text).not.toContain('Not known');
    expect(body('amend')?.textContent).toContain('Raise memory to 6 GiB for this run');
    expect([body('deny-tell'), body('stop-run')]).toEqual([null, null]);
    await pass(500);
    await press('amend');
    expect(api.blockAmend).toHaveBeenCalledWith(expect.objectContaining({ scope: 'run', rule: 1, confirmed: false, expires: null }));
    expect(body('decision')?.textContent).toContain('the run goes on');
    expect(body('undo')).not.toBeNull();
  });

  it('offers every raise in its menu, with no end of its own', async () => {
    shown = show(memoryView());
    await pass(500);
    await press('amend-menu');
    const rules = [...document.querySelectorAll('[data-testid="amend-option"]')].map((option) => option.getAttribute('data-rule'));
    expect(rules).toEqual(['1', '2', '3', '4']);
    document.querySelector('[data-rule="3"] input')?.dispatchEvent(new Event('change'));
    await flushPromises();
    expect((body('amend-expiry') as HTMLSelectElement).options).toHaveLength(1);
    expect(body('amend-chosen')?.textContent).toContain('Raise');
    await press('amend-chosen');
    expect(api.blockAmend).toHaveBeenCalledWith(expect.objectContaining({ scope: 'order', rule: 3, expires: null }));
  });

  it('asks before a paused run is stopped, and stops it with the reason', async () => {
    const amendment = sampleAmendment({ decision: 'deny', reason: 'it leaks', words: 'Refuse bound of memory' } as never);
    api.blockDeny.mockResolvedValue(ok(sampleDecided({ amendment, released: 0, refused: 1 })));
    api.blockShow.mockResolvedValue(ok(memoryView({ state: 'denied', by: 'operator', reason: 'it leaks', decided: 'denied by you', waiting: 0 } as never)));
    shown = show(memoryView());
    await press('deny');
    expect(body('deny-reason')).toBeNull();
    await pass(500);
    expect(body('deny')?.textContent).toContain('Stop the run…');
    expect(await useCards().refuse('r7k2mqdx-b1')).toBe('confirm');
    await flushPromises();
    expect(api.blockDeny).not.toHaveBeenCalled();
    expect(body('deny-send')?.textContent).toContain('Stop the run');
    const box = body('deny-reason') as HTMLTextAreaElement;
    box.value = 'it leaks';
    box.dispatchEvent(new Event('input'));
    await press('deny-send');
    expect(api.blockDeny).toHaveBeenCalledWith({ block: 'r7k2mqdx-b1', expect: 'h2-aa', reason: 'it leaks', surface: 'window' });
    expect(body('decision')?.textContent).toContain('the run is stopped');
    expect(shown.wrapper.text()).toContain('The reason given: it leaks');
    expect(body('deny-reason')).toBeNull();
  });

  it('says who was faster at a bound', async () => {
    api.blockAmend.mockResolvedValue(no('already_decided', 'r7k2mqdx-b1 was already amended by you at 14:02'));
    api.blockShow.mockResolvedValue(ok(memoryView({ state: 'amended', amendment: 'r7k2mqdx-a1', waiting: 0, decided: 'amended by you at 14:02' } as never)));
    shown = show(memoryView());
    await pass(500);
    await press('amend');
    expect(body('decision')?.textContent).toBe('Already amended by you at 14:02.');
  });

  it('says of processes that the run goes on and that a rule is for later ones', async () => {
    shown = show(processesView());
    const text = shown.wrapper.text();
    expect(text).toContain('Goes on');
    expect(text).toContain('512 of 512 processes');
    expect(text).toContain('More than that is refused to the run, which goes on.');
    expect(text).toContain('from the next one on: what runs now keeps its limit');
    expect(body('amend')?.textContent).toContain('Raise processes to 1032 processes for every run of this work order');
    expect(body('stop-run')).not.toBeNull();
    await pass(500);
    await press('deny');
    expect(api.blockDeny).toHaveBeenCalledWith(expect.objectContaining({ reason: '' }));
  });

  it('offers files once and by their folder', async () => {
    shown = show(fileView());
    const text = shown.wrapper.text();
    expect(text).toContain('write 5 paths in /srv/data');
    expect(text).toContain('File wall. No rule allows writing /srv/data/a.txt');
    expect(text).toContain('/srv/data/a.txt (not there yet)');
    await pass(500);
    await press('amend-menu');
    const options = [...document.querySelectorAll('[data-testid="amend-option"]')];
    expect(options.map((option) => option.getAttribute('data-scope'))).toEqual(['once', 'run']);
    expect(options[1]?.textContent).toContain('writing every file and folder below it');
    document.querySelector('[data-scope="once"] input')?.dispatchEvent(new Event('change'));
    await flushPromises();
    await press('amend-chosen');
    expect(api.blockAmend).toHaveBeenCalledWith(expect.objectContaining({ scope: 'once', rule: 1, expires: null }));
    expect(body('decision')?.textContent).toContain('2 actions let go');
  });

  it('lets a run write a folder of files by its button', async () => {
    shown = show(fileView());
    await pass(500);
    await press('amend');
    expect(api.blockAmend).toHaveBeenCalledWith(expect.objectContaining({ scope: 'run', rule: 2, confirmed: false }));
  });

  it('offers no rule for what is on the floor', () => {
    shown = show(sampleView({ candidates: [] }));
    expect(shown.wrapper.text()).toContain('No rule can open this');
    expect(body('amend')).toBeNull();
  });
});
