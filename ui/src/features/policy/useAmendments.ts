// Every recorded decision, read again when something that can change them does: a decision of any surface
// raises the policy revision of its run. Hits only count up; they are read now and then.

import { computed, onScopeDispose, shallowRef, watch } from 'vue';
import type { AmendmentView, Failure } from '@/ipc/bindings';
import { call } from '@/ipc/call';
import { useLive } from '@/live/store';

const HITS_MS = 15_000;

export function useAmendments(all: () => boolean) {
  const live = useLive();
  const amendments = shallowRef<readonly AmendmentView[]>([]);
  const failure = shallowRef<Failure | null>(null);
  const isRead = shallowRef(false);
  let newest = 0;

  async function read(): Promise<void> {
    newest += 1;
    const asked = newest;
    const answer = await call.amendmentList({ all: all() });
    if (asked !== newest) return;
    isRead.value = true;
    failure.value = answer.ok ? null : answer.failure;
    if (answer.ok) amendments.value = answer.value.amendments;
  }

  const revisions = computed(() => [...live.runs.values()].map((run) => `${run.id} ${String(run.revision ?? 0)} ${run.state}`).join('\n'));
  watch([all, revisions], () => void read(), { immediate: true });
  const timer = setInterval(() => {
    if (!document.hidden) void read();
  }, HITS_MS);
  onScopeDispose(() => clearInterval(timer));

  return { amendments, failure, isRead, read };
}
