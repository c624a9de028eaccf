import { onScopeDispose, shallowRef, watch } from 'vue';
import type { Ref } from 'vue';
import type { RunId, Sample } from '@/ipc/bindings';
import { call } from '@/ipc/call';
import { millisOf } from '@/lib/time';

const EVERY_MS = 4000;
const MOST = 30;
/** A figure older than this says nothing about now. */
const TOO_OLD_MS = 30_000;

/** The newest sample of each run in sight. Asked for only while they are in sight and the window is visible. */
export function useSamples(inSight: Ref<readonly RunId[]>): Ref<ReadonlyMap<RunId, Sample>> {
  const samples = shallowRef<ReadonlyMap<RunId, Sample>>(new Map());
  let over = false;
  let asking = false;
  let again = false;

  async function ask(): Promise<void> {
    again ||= asking;
    if (asking || over || document.hidden) return;
    asking = true;
    const next = new Map<RunId, Sample>();
    for (const run of inSight.value.slice(0, MOST)) {
      const known = samples.value.get(run);
      const answer = await call.runSamples({ run, after: known?.at ?? null, wait_ms: 0 });
      const sample = answer.ok ? (answer.value.samples.at(-1) ?? known) : undefined;
      if (sample && Date.now() - (millisOf(sample.at) ?? 0) < TOO_OLD_MS) next.set(run, sample);
      if (over) return;
    }
    samples.value = next;
    asking = false;
    if (!again) return;
    again = false;
    void ask();
  }

  const timer = setInterval(() => void ask(), EVERY_MS);
  watch(inSight, (now, before) => {
    if (now.some((run) => !before.includes(run))) void ask();
  });
  void ask();
  onScopeDispose(() => {
    over = true;
    clearInterval(timer);
  });
  return samples;
}
