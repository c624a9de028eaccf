import { shallowRef } from 'vue';
import type { Failure } from '@/ipc/bindings';
import type { Result } from '@/ipc/call';

/** One question and its newest answer: an answer that a newer question overtook is dropped. */
export function useAsk<T>(question: () => Promise<Result<T>>) {
  const value = shallowRef<T | null>(null);
  const failure = shallowRef<Failure | null>(null);
  const busy = shallowRef(false);
  let newest = 0;

  async function ask(): Promise<void> {
    newest += 1;
    const mine = newest;
    busy.value = true;
    const answer = await question();
    if (mine !== newest) return;
    busy.value = false;
    failure.value = answer.ok ? null : answer.failure;
    if (answer.ok) value.value = answer.value;
  }

  return { value, failure, busy, ask };
}
