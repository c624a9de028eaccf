// The repositories that had runs, with how their policy files stand; read again when a new one comes.

import { computed, shallowRef, watch } from 'vue';
import type { Failure, KnownRepo } from '@/ipc/bindings';
import { call } from '@/ipc/call';
import { useLive } from '@/live/store';

export function useRepos() {
  const live = useLive();
  const repos = shallowRef<readonly KnownRepo[]>([]);
  const failure = shallowRef<Failure | null>(null);
  const isRead = shallowRef(false);

  async function read(): Promise<void> {
    const answer = await call.repoList({});
    isRead.value = true;
    failure.value = answer.ok ? null : answer.failure;
    if (answer.ok) repos.value = answer.value.repos;
  }

  const ofRuns = computed(() => [...new Set([...live.runs.values()].map((run) => run.repo))].sort().join('\n'));
  watch(ofRuns, () => void read(), { immediate: true });

  return { repos, failure, isRead, read };
}
