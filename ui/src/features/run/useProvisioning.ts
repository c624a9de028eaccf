import { onScopeDispose, ref, shallowRef, watch } from 'vue';
import type { Failure, RunView } from '@/ipc/bindings';
import { call } from '@/ipc/call';
import { NOTHING_YET, withEvent } from './provisioning';
import type { Provisioning } from './provisioning';

const PAGE = 512;
/** A setup that says more than this is not read to its end here; all of it is in the feed. */
const MOST_PAGES = 8;

/** How a run was made ready, from the beginning of its log; goes on while it is being made ready. */
export function useProvisioning(run: () => RunView) {
  const told = shallowRef<Provisioning>(NOTHING_YET);
  const failure = shallowRef<Failure | null>(null);
  const isCut = ref(false);
  const isRead = ref(false);
  let after = 0;
  let pages = 0;
  let isBusy = false;
  let isGone = false;

  async function read(): Promise<void> {
    if (isBusy) return;
    isBusy = true;
    failure.value = null;
    while (!isGone && !told.value.isOver && after < run().last_seq) {
      if (pages >= MOST_PAGES) {
        isCut.value = true;
        break;
      }
      const request = { run: run().id, after, limit: PAGE, wait_ms: 0, kinds: [] };
      const answer = await call.runEvents(request);
      if (!answer.ok) {
        failure.value = answer.failure;
        break;
      }
      told.value = answer.value.events.reduce(withEvent, told.value);
      if (answer.value.cursor <= after) break;
      after = answer.value.cursor;
      if (answer.value.events.length >= PAGE) pages += 1;
    }
    isRead.value = true;
    isBusy = false;
  }

  watch(() => run().last_seq, () => void read(), { immediate: true });
  onScopeDispose(() => {
    isGone = true;
  });
  return { told, failure, isCut, isRead, retry: () => void read() };
}
