import { flushPromises, mount } from '@vue/test-utils';
import type { VueWrapper } from '@vue/test-utils';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { createPinia } from 'pinia';
import { shallowReactive } from 'vue';
import { createMemoryHistory, createRouter } from 'vue-router';
import type { Router } from 'vue-router';
import type { BlockView, RunView, Talks } from '@/ipc/bindings';
import SayToAgent from './SayToAgent.vue';
import { proposal } from './say';

const engine = vi.hoisted(() => ({ runDetails: vi.fn(), runSay: vi.fn() }));
vi.mock('@/ipc/call', () => ({ call: engine }));
const live = shallowReactive({ blocks: new Map<string, BlockView>(), refreshRun: vi.fn() });
vi.mock('@/live/store', () => ({ useLive: () => live }));

const RUN = { id: 'r7k2mqdx', state: 'running', step: 'agent', revision: 1 } as unknown as RunView;
const block = (some: object): BlockView =>
  ({ id: 'r7k2mqdx-b1', subject: { type: 'egress', protocol: 'tcp', host: { name: 'a.example' }, port: 443, resolved: null }, last_at: '2026-03-01T10:00:00Z', ...some }) as unknown as BlockView;

let wrapper: VueWrapper;
let router: Router;
async function show(talks: Talks, agent: string | null = 'opencode'): Promise<void> {
  engine.runDetails.mockResolvedValue({ ok: true, value: { talks, agent } });
  router = createRouter({
    history: createMemoryHistory(),
    routes: [
      { path: '/', component: { template: '<p />' } },
      { path: '/run/:id', name: 'run', component: { template: '<p />' } },
    ],
  });
  wrapper = mount(SayToAgent, { props: { run: RUN }, global: { plugins: [createPinia(), router] } });
  await flushPromises();
}

beforeEach(() => {
  live.blocks = new Map();
  engine.runSay.mockReset();
});
afterEach(() => wrapper.unmount());

describe('saying something to the agent', () => {
  it('has a field only where its agent can take it', async () => {
    for (const talks of ['later', 'no'] as const) {
      await show(talks);
      expect(wrapper.find('form').exists()).toBe(false);
      wrapper.unmount();
    }
    await show('now');
    expect(wrapper.text()).toContain('when its turn ends');
  });

  it('says it to one that works, and stays', async () => {
    await show('now');
    engine.runSay.mockResolvedValue({ ok: true, value: { run: RUN, how: 'waits' } });
    await wrapper.get('textarea').setValue('the old name');
    await wrapper.get('form').trigger('submit');
    await flushPromises();
    expect(engine.runSay).toHaveBeenCalledExactlyOnceWith({ run: 'r7k2mqdx', message: 'the old name', afresh: false });
    expect(wrapper.get('textarea').element.value).toBe('');
    expect(router.currentRoute.value.path).toBe('/');
  });

  it('goes to the run that goes on with it, and keeps what was refused', async () => {
    await show('goes_on');
    engine.runSay.mockResolvedValueOnce({ ok: false, failure: { code: 'conflict', message: 'it cannot be told anything now' } });
    await wrapper.get('textarea').setValue('go on');
    await wrapper.get('form').trigger('submit');
    await flushPromises();
    expect(wrapper.text()).toContain('it cannot be told anything now');
    expect(wrapper.get('textarea').element.value).toBe('go on');
    engine.runSay.mockResolvedValue({ ok: true, value: { run: { ...RUN, id: 'rnext000' }, how: 'resumes' } });
    await wrapper.get('form').trigger('submit');
    await flushPromises();
    expect(router.currentRoute.value.params['id']).toBe('rnext000');
  });

  it('proposes what the newest decision leaves to be said', () => {
    const denied = block({ state: 'denied', reason: 'use the mirror', last_at: '2026-03-01T11:00:00Z' });
    const amended = block({ state: 'amended' });
    expect(proposal([amended, denied])).toContain('was denied: use the mirror');
    expect(proposal([amended])).toContain('is allowed now. Try again.');
    expect(proposal([block({ state: 'open' }), block({ state: 'denied', reason: '' })])).toBeNull();
  });
});
