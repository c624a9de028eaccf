// The first steps and the demo's strip, over answers of a pretended engine.

import { flushPromises, mount } from '@vue/test-utils';
import type { VueWrapper } from '@vue/test-utils';
import { createPinia } from 'pinia';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import type { Mock } from 'vitest';
import type { Component } from 'vue';
import { createMemoryHistory, createRouter } from 'vue-router';
import type { Router } from 'vue-router';
import DemoCoach from './DemoCoach.vue';
import FirstRunScreen from './FirstRunScreen.vue';

const ok = <T>(value: T) => Promise.resolve({ ok: true as const, value });
const no = (code: string, message: string) => Promise.resolve({ ok: false as const, failure: { code, message } });
const mocks = vi.hoisted(() => {
  const make = () => new Proxy({} as Record<string, Mock>, {
    get(all, name: string) {
      return (all[name] ??= vi.fn());
    },
  });
  return { calls: make(), app: make() };
});
const { calls, app } = mocks;
vi.mock('@/ipc/call', () => ({ call: mocks.calls, failureOf: (error: unknown) => error, settled: vi.fn() }));
vi.mock('@/ipc/app', () => ({ app: mocks.app, onNavigate: vi.fn() }));

let shown: VueWrapper | null = null;
let router: Router;
async function show(screen: Component, props: Record<string, unknown> = {}): Promise<VueWrapper> {
  router = createRouter({ history: createMemoryHistory(), routes: [{ path: '/orders/new', name: 'new-order', component: screen }, { path: '/:rest(.*)*', component: { template: '<i />' } }] });
  await router.push('/first-run');
  shown = mount(screen, { props, attachTo: document.body, global: { plugins: [router, createPinia()] } });
  await flushPromises();
  return shown;
}

beforeEach(() => {
  shown?.unmount();
  document.body.innerHTML = '';
  for (const name of ['runShow', 'runList', 'blockList', 'orderList', 'watch', 'runCreate', 'repoList', 'repoInspect']) {
    calls[name]?.mockReset();
    calls[name]?.mockImplementation(() => no('busy', 'not now'));
  }
  for (const name of ['demoStart', 'demoEnd']) app[name]?.mockReset();
  app['demoEnd']?.mockImplementation(() => ok({}));
  calls['doctor']?.mockImplementation(() => ok({
    tier: 'full', words: 'Network held, files confined', bounds: [], notes: [],
    walls: [{ wall: 'network', holds: true, required: true, detail: 'a denied address was refused', remedy: null }, { wall: 'landlock', holds: false, required: false, detail: 'not there', remedy: 'Use a newer kernel' }],
  }));
  calls['agentsFind']?.mockImplementation(() => ok({ agents: [{ name: 'None', program: 'none', path: null, version: null, looked_in: ['/usr/bin'], hint: '' }] }));
});

describe('first run', () => {
  it('ticks what holds, names remedies, and lets each step be skipped', async () => {
    const screen = await show(FirstRunScreen);
    const doctor = screen.get('[data-testid="first-run-step-1"]');
    expect(doctor.text()).toContain('Done');
    await doctor.get('button[aria-expanded]').trigger('click');
    expect(screen.text()).toContain('Use a newer kernel');
    const agents = screen.get('[data-testid="first-run-step-2"]');
    expect(agents.text()).toContain('None was found.');
    await agents.findAll('button').find((button) => button.text() === 'Skip')?.trigger('click');
    expect(agents.text()).toContain('Skipped');
  });

  it('starts the demo on its own engine and goes to its run', async () => {
    app['demoStart']?.mockImplementation(() => ok({ repo: '/demo/repo', argv: ['bash', 'agent.sh'], title: 'take over' }));
    calls['runCreate']?.mockImplementation(() => ok({ id: 'rdemo' }));
    const screen = await show(FirstRunScreen);
    await screen.get('[data-testid="try-it"]').trigger('click');
    await flushPromises();
    expect(calls['runCreate']).toHaveBeenCalledExactlyOnceWith(expect.objectContaining({ repo: '/demo/repo', argv: ['bash', 'agent.sh'], title: 'take over' }));
    await vi.waitFor(() => expect(router.currentRoute.value.path).toBe('/run/rdemo'));
  });

  it('leaves the demo again where its run cannot start', async () => {
    app['demoStart']?.mockImplementation(() => ok({ repo: '/demo/repo', argv: ['x'], title: 't' }));
    calls['runCreate']?.mockImplementation(() => no('wall_missing', 'the network wall does not hold'));
    const screen = await show(FirstRunScreen);
    await screen.get('[data-testid="try-it"]').trigger('click');
    await flushPromises();
    expect(screen.text()).toContain('the network wall does not hold.');
    expect(app['demoEnd']).toHaveBeenCalledOnce();
  });
});

describe('the strip of the demo', () => {
  const run = { id: 'r1', state: 'running', open_blocks: 1, subjects_allowed: 0 };
  it('leads to the card and to the review, and decides nothing', async () => {
    const strip = await show(DemoCoach, { run, blocks: [] });
    expect(strip.text()).toContain('Held: the agent waits');
    await strip.get('button').trigger('click');
    await vi.waitFor(() => expect(router.currentRoute.value.path).toBe('/run/r1/blocks'));
    await strip.setProps({ run: { ...run, state: 'review', open_blocks: 0 } });
    expect(strip.text()).toContain('Go to Changes');
  });
  it('offers what comes next after the merge', async () => {
    const strip = await show(DemoCoach, { run: { ...run, state: 'merged', open_blocks: 0 }, blocks: [] });
    expect(strip.findAll('button').map((button) => button.text())).toEqual(['Leave the demo', 'Add a repository of yours', 'New work order']);
    await strip.findAll('button')[2]?.trigger('click');
    await vi.waitFor(() => expect(router.currentRoute.value.path).toBe('/orders/new'));
    expect(app['demoEnd']).toHaveBeenCalledOnce();
  });
});
