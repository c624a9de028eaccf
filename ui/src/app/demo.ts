import { defineStore } from 'pinia';
import { shallowRef } from 'vue';
import { app } from '@/ipc/app';
import type { DemoView } from '@/ipc/app';
import type { Result } from '@/ipc/call';
import { useLive } from '@/live/store';

/** The demo: while it is on, its own engine answers every call, so everything shown is read anew. */
export const useDemo = defineStore('demo', () => {
  const view = shallowRef<DemoView | null>(null);

  function set(now: DemoView | null): void {
    const moved = (view.value === null) !== (now === null);
    view.value = now;
    if (moved) useLive().reset();
  }

  /** Asks whether it is on; cheap, and right also when something else started or ended it. */
  async function refresh(): Promise<void> {
    const answer = await app.demoState();
    if (answer.ok) set(answer.value);
  }

  async function start(): Promise<Result<DemoView>> {
    const answer = await app.demoStart();
    if (answer.ok) set(answer.value);
    return answer;
  }

  async function leave(): Promise<Result<unknown>> {
    const answer = await app.demoEnd();
    if (answer.ok) set(null);
    return answer;
  }

  return { view, refresh, start, leave };
});
