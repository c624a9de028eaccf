import { computed, ref, shallowRef, watch } from 'vue';
import type { Failure, RunView } from '@/ipc/bindings';
import { call } from '@/ipc/call';
import { useLive } from '@/live/store';

/** The run that a route names: from the live state, or asked for where it is not among what is kept live. */
export function useRun(id: () => string) {
  const live = useLive();
  const asked = shallowRef<RunView | null>(null);
  const failure = shallowRef<Failure | null>(null);
  const isBusy = ref(false);
  const kept = computed(() => live.runs.get(id()) ?? null);
  const run = computed(() => kept.value ?? (asked.value?.id === id() ? asked.value : null));

  async function ask(): Promise<void> {
    const named = id();
    isBusy.value = true;
    failure.value = null;
    const answer = await call.runShow({ run: named });
    if (named !== id()) return;
    isBusy.value = false;
    if (answer.ok) {
      asked.value = answer.value;
      live.refreshRun(answer.value.id);
    } else {
      asked.value = null;
      failure.value = answer.failure;
    }
  }

  /** Asked again also when it goes away while it is shown: then it says why. */
  watch(
    [id, () => kept.value === null],
    ([, isUnknown]) => {
      failure.value = null;
      if (isUnknown) void ask();
    },
    { immediate: true },
  );

  return {
    run,
    failure,
    isBusy,
    /** The id in full, where a beginning of it was named. */
    fullId: computed(() => asked.value?.id ?? null),
    retry: () => void ask(),
  };
}
