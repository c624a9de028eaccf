import { onScopeDispose, shallowRef, watch } from 'vue';
import type { Failure, RunDetailsView, RunView } from '@/ipc/bindings';
import { call } from '@/ipc/call';

/** What a run was ordered with and what it did, read anew when it changes state. */
export function useDetails(run: () => RunView) {
  const details = shallowRef<RunDetailsView | null>(null);
  const failure = shallowRef<Failure | null>(null);
  let asked = 0;

  async function read(): Promise<void> {
    const mine = ++asked;
    const answer = await call.runDetails({ run: run().id });
    if (mine !== asked) return;
    failure.value = answer.ok ? null : answer.failure;
    if (answer.ok) details.value = answer.value;
  }

  /** A step is part of the state while one runs. */
  const standing = (): string => {
    const now = run();
    return [now.id, now.state, now.state === 'running' ? now.step : '', now.revision].join(' ');
  };
  watch(standing, () => void read(), { immediate: true });
  onScopeDispose(() => {
    asked += 1;
  });
  return { details, failure, retry: () => void read() };
}
