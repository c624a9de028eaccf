// The order form and an order's screen, over answers of a pretended engine.

import { flushPromises, mount } from '@vue/test-utils';
import type { VueWrapper } from '@vue/test-utils';
import { createPinia } from 'pinia';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import type { Mock } from 'vitest';
import type { Component } from 'vue';
import { createMemoryHistory, createRouter } from 'vue-router';
import type { Router } from 'vue-router';
import { linkedOrder } from '@/app/navigation';
import NewOrderScreen from './NewOrderScreen.vue';
import OrderScreen from './OrderScreen.vue';

const ok = <T>(value: T) => Promise.resolve({ ok: true as const, value });
const no = (code: string, message: string, hint: string | null = null, about: string | null = null) =>
  Promise.resolve({ ok: false as const, failure: { code, message, hint, about } });
const calls = vi.hoisted(() => new Proxy({} as Record<string, Mock>, {
  get(all, name: string) {
    return (all[name] ??= vi.fn());
  },
}));
vi.mock('@/ipc/call', () => ({ call: calls, failureOf: (error: unknown) => error, settled: vi.fn() }));

const ORDER = {
  id: 'o1', title: 'Fix\u202e it', state: 'queued', wait: { wait: 'dependency', words: 'it waits for o0', on: [{ order: 'o0', state: 'unfinished' }] }, repo: '/r', base: null,
  argv: ['agent', '{prompt}'], prompt: '<b>do</b>', hints: {}, scope: null, depends_on: ['o0'], parent: null, gate: 'review', checks: [], group: null, attempts: 0, schedule: null,
  next_slot: null, source: null, created_at: '2026-01-02T10:00:00Z', last_run: null, runs: ['r1'],
};
let shown: VueWrapper | null = null;
let router: Router;

async function show(screen: Component, path: string): Promise<VueWrapper> {
  router = createRouter({ history: createMemoryHistory(), routes: [{ path: '/order/:id', component: screen }, { path: '/:rest(.*)*', component: screen }] });
  await router.push(path);
  shown = mount(screen, { attachTo: document.body, global: { plugins: [router, createPinia()] } });
  await flushPromises();
  return shown;
}
async function type(field: string, text: string): Promise<void> {
  const label = [...document.querySelectorAll('label')].find((one) => one.textContent === field);
  const box = document.getElementById(label?.htmlFor ?? '') as HTMLInputElement | null;
  expect(box, field).not.toBeNull();
  if (box) box.value = text;
  box?.dispatchEvent(new Event('input', { bubbles: true }));
  await flushPromises();
}
async function press(id: string): Promise<void> {
  document.querySelector<HTMLElement>(`[data-testid="${id}"]`)?.click();
  await flushPromises();
}
const body = (): string => document.body.textContent ?? '';

beforeEach(() => {
  shown?.unmount();
  document.body.innerHTML = '';
  localStorage.clear();
  linkedOrder.value = null;
  for (const name of ['agentsFind', 'repoList', 'repoInspect', 'orderShow', 'orderAdd', 'orderDispatch', 'runCreate', 'orderCancel', 'orderEdit', 'orderList']) {
    calls[name]?.mockReset();
    calls[name]?.mockImplementation(() => no('busy', 'not now'));
  }
  calls['repoList']?.mockImplementation(() => ok({ repos: [{ path: '/home/me/app', name: 'app', reachable: true, runs: 1, last_used: '' }] }));
});

describe('a new order', () => {
  it('says what is missing beside the field and sends nothing', async () => {
    await show(NewOrderScreen, '/orders/new');
    await press('order-submit');
    expect(body()).toContain('Write the command of the agent');
    expect(document.activeElement?.getAttribute('aria-invalid')).toBe('true');
    expect([calls['runCreate']?.mock.calls, calls['orderAdd']?.mock.calls]).toEqual([[], []]);
  });

  it('shows the words of the command and starts a plain run', async () => {
    await show(NewOrderScreen, '/orders/new');
    await type('Command', "sh -c 'make it'");
    expect([...document.querySelectorAll('ol li')].map((word) => word.textContent)).toEqual(['sh', '-c', 'make it']);
    calls['runCreate']?.mockImplementation(() => ok({ id: 'r9' }));
    await press('order-submit');
    expect(calls['runCreate']).toHaveBeenCalledExactlyOnceWith(expect.objectContaining({ repo: '/home/me/app', argv: ['sh', '-c', 'make it'] }));
    await vi.waitFor(() => expect(router.currentRoute.value.path).toBe('/run/r9'));
    expect(localStorage.getItem('sdf.order.draft')).toBeNull();
  });

  it('hands an order with a prompt in, and dispatches it', async () => {
    await show(NewOrderScreen, '/orders/new');
    await type('Command', 'agent {prompt}');
    await type('Prompt', 'Do it');
    calls['orderAdd']?.mockImplementation(() => ok({ orders: [ORDER] }));
    calls['orderDispatch']?.mockImplementation(() => ok({ ...ORDER, state: 'dispatched', run: 'r7' }));
    window.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', ctrlKey: true, cancelable: true }));
    await flushPromises();
    expect(calls['orderAdd']).toHaveBeenCalledOnce();
    expect(calls['orderDispatch']).toHaveBeenCalledExactlyOnceWith({ order: 'o1' });
    await vi.waitFor(() => expect(router.currentRoute.value.path).toBe('/run/r7'));
  });

  it('keeps what was typed when it is refused, and shows why at its field', async () => {
    await show(NewOrderScreen, '/orders/new');
    await type('Command', 'make');
    calls['runCreate']?.mockImplementation(() => no('bad_repository', 'It is damaged', 'Run git fsck.', 'repo'));
    await press('order-submit');
    expect(body()).toContain('It is damaged. Run git fsck.');
    shown?.unmount();
    await show(NewOrderScreen, '/orders/new');
    expect(body()).toContain('This is what you had typed before.');
    expect((document.querySelector('textarea[placeholder^="my-agent"]') as HTMLTextAreaElement | null)?.value).toBe('make');
  });

  it('shows what the engine refuses at the field that it names, opened where it stands behind More', async () => {
    await show(NewOrderScreen, '/orders/new');
    await type('Command', 'make');
    calls['runCreate']?.mockImplementation(() => no('bad_input', 'a program needs at least 32 open files', null, 'open_files'));
    await press('order-submit');
    const label = [...document.querySelectorAll('label')].find((one) => one.textContent === 'Open files');
    const box = document.getElementById(label?.htmlFor ?? '');
    expect([box?.getAttribute('aria-invalid'), document.activeElement === box]).toEqual(['true', true]);
    expect(document.getElementById(`${label?.htmlFor ?? ''}-error`)?.textContent).toBe('a program needs at least 32 open files.');
    expect(document.querySelector('details')?.open).toBe(true);
  });

  it('holds reads where the switch says so', async () => {
    await show(NewOrderScreen, '/orders/new');
    await type('Command', 'make');
    document.querySelector<HTMLElement>('[data-testid="hold-reads"] [role="switch"]')?.click();
    await flushPromises();
    calls['runCreate']?.mockImplementation(() => ok({ id: 'r9' }));
    await press('order-submit');
    expect(calls['runCreate']).toHaveBeenCalledExactlyOnceWith(expect.objectContaining({ hold_reads: true }));
  });

  it('is only filled in by a link', async () => {
    linkedOrder.value = { title: 'From a page', prompt: 'rm', repo: '/evil' };
    await show(NewOrderScreen, '/orders/new?title=x');
    expect(body()).toContain('A link filled this in; nothing has started.');
    expect(['runCreate', 'orderAdd', 'orderDispatch'].flatMap((name) => calls[name]?.mock.calls ?? [])).toEqual([]);
    expect(linkedOrder.value).toBeNull();
  });
});

describe('an order', () => {
  it('says what it waits for and on whom, with its text as text', async () => {
    calls['orderShow']?.mockImplementation(() => ok(ORDER));
    await show(OrderScreen, '/order/o1');
    expect(body()).toContain('It waits for o0.');
    expect(body()).toContain('Fix⟦U+202E⟧ it');
    expect(body()).toContain('<b>do</b>');
    expect([...document.querySelectorAll('a')].map((link) => link.getAttribute('href'))).toEqual(['/order/o0', '/run/r1']);
  });

  it('is cancelled only after a question', async () => {
    calls['orderShow']?.mockImplementation(() => ok(ORDER));
    await show(OrderScreen, '/order/o1');
    const button = (label: string): HTMLElement | undefined => [...document.querySelectorAll<HTMLElement>('button')].find((one) => one.textContent?.trim() === label);
    button('Cancel order…')?.click();
    await flushPromises();
    expect(calls['orderCancel']).not.toHaveBeenCalled();
    calls['orderCancel']?.mockImplementation(() => ok({ ...ORDER, state: 'cancelled', wait: null }));
    button('Cancel the order')?.click();
    await flushPromises();
    expect(calls['orderCancel']).toHaveBeenCalledExactlyOnceWith({ order: 'o1' });
    expect(body()).toContain('Cancelled');
  });

  it('that is gone says so', async () => {
    calls['orderShow']?.mockImplementation(() => no('not_found', 'There is no order o1'));
    await show(OrderScreen, '/order/o1');
    expect(body()).toContain('There is no order o1.');
  });
});
