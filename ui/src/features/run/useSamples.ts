import { computed, onScopeDispose, shallowRef, watch } from 'vue';
import type { Failure, RunView } from '@/ipc/bindings';
import { call } from '@/ipc/call';
import { isLive } from '@/lib/state';
import { NOTHING_MEASURED, gaugesOf, withSamples } from './samples';
import type { Measured } from './samples';

const WAIT_MS = 5_000;
const PAUSE_MS = 500;
const RETRY_MS = 5_000;

/** What a run uses, measured while somebody looks: asked for only while the window is seen and the run lives. */
export function useSamples(run: () => RunView) {
  const measured = shallowRef<Measured>(NOTHING_MEASURED);
  const failure = shallowRef<Failure | null>(null);
  let life = 0;

  const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

  async function loop(mine: number, id: string): Promise<void> {
    while (mine === life) {
      const after = measured.value.samples.at(-1)?.at ?? null;
      const answer = await call.runSamples({ run: id, after, wait_ms: WAIT_MS });
      if (mine !== life) return;
      if (answer.ok) {
        const { samples, bounds, wall_left_ms } = answer.value;
        failure.value = null;
        measured.value = {
          samples: withSamples(measured.value.samples, samples),
          bounds,
          wallLeftMs: wall_left_ms ?? null,
        };
      } else {
        failure.value = answer.failure;
      }
      await pause(answer.ok ? PAUSE_MS : RETRY_MS);
    }
  }

  function start(): void {
    life += 1;
    if (isLive(run()) && !document.hidden) void loop(life, run().id);
  }

  watch(
    () => run().id,
    () => {
      measured.value = NOTHING_MEASURED;
    },
  );
  watch(() => `${run().id} ${isLive(run())}`, start, { immediate: true });
  document.addEventListener('visibilitychange', start);
  onScopeDispose(() => {
    life += 1;
    document.removeEventListener('visibilitychange', start);
  });

  return { gauges: computed(() => gaugesOf(measured.value)), failure };
}
