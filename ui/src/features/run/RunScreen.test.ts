import { flushPromises, mount } from '@vue/test-utils';
import type { VueWrapper } from '@vue/test-utils';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createPinia } from 'pinia';
import { shallowReactive } from 'vue';
import { RouterView, createMemoryHistory, createRouter } from 'vue-router';
import type { Router } from 'vue-router';
import { handleKey } from '@/app/keys';
import type { RunView } from '@/ipc/bindings';
import RunScreen from './RunScreen.vue';

const engine = vi.hoisted(() => ({
  runShow: vi.fn(),
  runEvents: vi.fn(),
  runStop: vi.fn(),
  runSamples: vi.fn(),
  runDetails: vi.fn(),
  runRetry: vi.fn(),
  blockList: vi.fn(),
}));
const desktop = vi.hoisted(() => ({ openWorktree: vi.fn() }));
vi.mock('@/ipc/call', () => ({ call: engine }));
vi.mock('@/ipc/app', () => ({ app: desktop }));
const live = shallowReactive({
  runs: new Map<string, RunView>(),
  blocks: new Map(),
  refreshRun: vi.fn(),
});
vi.mock('@/live/store', () => ({ useLive: () => live }));

const RUN = {
  id: 'r7k2mqdx',
  order: 'o1',
  title: 'Mend the \u202ecounter',
  repo_name: 'shop',
  repo: '/srv/shop',
  branch: 'foreman/r7k2mqdx',
  base_branch: 'main',
  base_commit: '0123456789abcdef',
  behind: null,
  revision: 2,
  tier: 'Network held, files confined',
  created_at: '2026-03-01T10:00:00Z',
  ended_at: null,
  open_blocks: 0,
  last_seq: 0,
  state: 'running',
  step: 'agent',
} as unknown as RunView;
const never = () => new Promise(() => undefined);
const missing = { ok: false, failure: { code: 'not_found', message: 'there is no run r0' } };

let wrapper: VueWrapper;
let router: Router;
async function open(path: string): Promise<void> {
  router = createRouter({
    history: createMemoryHistory(),
    routes: [
      { path: '/', name: 'board', component: { template: '<p>board</p>' } },
      { path: '/run/:id/:tab?', name: 'run', component: RunScreen },
      { path: '/order/:id', name: 'order', component: { template: '<p>order</p>' } },
    ],
  });
  await router.push(path);
  wrapper = mount({ components: { RouterView }, template: '<RouterView />' }, { global: { plugins: [createPinia(), router] }, attachTo: document.body });
  await flushPromises();
}
const button = (words: string) => [...document.querySelectorAll('button')].filter((one) => one.textContent?.trim() === words);

beforeEach(() => {
  live.runs = new Map([[RUN.id, RUN]]);
  for (const one of Object.values(engine)) one.mockReset().mockImplementation(never);
  engine.runShow.mockResolvedValue(missing);
});
afterEach(() => {
  wrapper.unmount();
  document.body.replaceChildren();
});

describe('the run screen', () => {
  it('shows the run, its state in a word, and its title with marks', async () => {
    await open('/run/r7k2mqdx');
    expect(wrapper.get('h1').text()).toBe('Mend the ⟦U+202E⟧counter');
    expect(wrapper.get('[data-testid="run-state"]').text()).toContain('Running');
    expect(wrapper.text()).toContain('Network held, files confined');
    expect(wrapper.text()).toContain('not measured');
    expect(wrapper.find('[data-testid="feed"]').exists()).toBe(true);
  });

  it('says when there is no such run, and offers a way back', async () => {
    await open('/run/r0');
    expect(wrapper.text()).toContain('There is no such run');
    button('Go to the board')[0]?.click();
    await flushPromises();
    expect(router.currentRoute.value.name).toBe('board');
  });

  it('says so when the run is deleted while it is shown', async () => {
    await open('/run/r7k2mqdx');
    live.runs = new Map();
    await flushPromises();
    expect(wrapper.text()).toContain('There is no such run');
  });

  it('asks again when the engine could not answer', async () => {
    engine.runShow.mockResolvedValueOnce({ ok: false, failure: { code: 'busy', message: 'another engine holds it' } });
    await open('/run/r0');
    expect(wrapper.get('[role="alert"]').text()).toContain('another engine holds it');
    engine.runShow.mockResolvedValue({ ok: true, value: { ...RUN, id: 'r0' } });
    await wrapper.get('[role="alert"] button').trigger('click');
    await flushPromises();
    expect(wrapper.get('h1').text()).toContain('Mend');
  });

  it('shows a run that was named by a beginning of its id under all of it', async () => {
    engine.runShow.mockResolvedValue({ ok: true, value: RUN });
    await open('/run/r7k');
    expect(router.currentRoute.value.params['id']).toBe('r7k2mqdx');
  });

  it('has its tabs in the route and on keys', async () => {
    await open('/run/r7k2mqdx');
    handleKey(new KeyboardEvent('keydown', { key: '6' }));
    await flushPromises();
    expect(router.currentRoute.value.params['tab']).toBe('details');
    expect(engine.runDetails).toHaveBeenCalledWith({ run: 'r7k2mqdx' });
    await wrapper.get('[data-testid="tab-provisioning"]').trigger('click');
    await flushPromises();
    expect(router.currentRoute.value.params['tab']).toBe('provisioning');
  });

  it('stops a run only after a question', async () => {
    engine.runStop.mockResolvedValue({ ok: true, value: RUN });
    await open('/run/r7k2mqdx');
    await wrapper.get('[data-testid="stop-run"]').trigger('click');
    await flushPromises();
    expect(engine.runStop).not.toHaveBeenCalled();
    button('Stop run').at(-1)?.click();
    await flushPromises();
    expect(engine.runStop).toHaveBeenCalledExactlyOnceWith({ run: 'r7k2mqdx' });
  });

  it('measures only while the run lives, and offers another attempt when it is over', async () => {
    live.runs = new Map([[RUN.id, { ...RUN, state: 'no_changes', ended_at: '2026-03-01T10:05:00Z' } as RunView]]);
    await open('/run/r7k2mqdx');
    expect(engine.runSamples).not.toHaveBeenCalled();
    expect(wrapper.find('[data-testid="stop-run"]').exists()).toBe(false);
    expect(wrapper.text()).toContain('The run ended without changes.');
    engine.runRetry.mockResolvedValue({ ok: true, value: { run: { ...RUN, id: 'r9' }, terminal: false } });
    button('Try again')[0]?.click();
    await flushPromises();
    expect(router.currentRoute.value.params['id']).toBe('r9');
  });
});
