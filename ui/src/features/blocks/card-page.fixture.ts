// A card in a page, over a pretended engine: what the tests of cards share.

import { flushPromises, mount } from '@vue/test-utils';
import { createPinia, setActivePinia } from 'pinia';
import { vi } from 'vitest';
import { h, shallowRef } from 'vue';
import { createMemoryHistory, createRouter } from 'vue-router';
import type { BlockView } from '@/ipc/bindings';
import BlockCard from './BlockCard.vue';
import { call } from './calls.fixture';
import { amendedView, sampleDecided } from './sample.fixture';

export const ok = <T>(value: T) => ({ ok: true as const, value });
export const no = (code: string, message: string) => ({ ok: false as const, failure: { code, message } });

const page = { render: () => h('div') };
const router = createRouter({
  history: createMemoryHistory(),
  routes: [
    { path: '/', component: page },
    { path: '/run/:id/:tab?', name: 'run', component: page },
    { path: '/policy', name: 'policy', component: page },
  ],
});
let shown: ReturnType<typeof mounted> | null = null;

function mounted(first: BlockView) {
  const view = shallowRef(first);
  const wrapper = mount({ setup: () => () => h(BlockCard, { block: view.value }) }, {
    global: { plugins: [router] },
    attachTo: document.body,
  });
  return { wrapper, view };
}
/** Shows a card, whose block can change. */
export function show(first: BlockView): ReturnType<typeof mounted> {
  shown = mounted(first);
  return shown;
}
export const body = (id: string): HTMLElement | null => document.querySelector<HTMLElement>(`[data-testid="${id}"]`);
export async function press(id: string): Promise<void> {
  body(id)?.click();
  await flushPromises();
}
export async function pass(millis: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(millis);
  await flushPromises();
}

/** Before each test: time stands, and an amendment is answered. */
export function begin(): void {
  vi.useFakeTimers({ now: Date.parse('2026-01-02T10:01:00Z') });
  setActivePinia(createPinia());
  call.runEvents.mockResolvedValue(ok({ events: [], cursor: 0, ended: false, first: null, has_older: false }));
  call.blockAmend.mockResolvedValue(ok(sampleDecided()));
  call.blockShow.mockResolvedValue(ok(amendedView()));
}
/** After each test. */
export function end(): void {
  shown?.wrapper.unmount();
  shown = null;
  vi.clearAllMocks();
  vi.useRealTimers();
}
