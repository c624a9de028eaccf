import { computed, ref, shallowRef } from 'vue';
import { useRouter } from 'vue-router';
import type { Failure, RunView } from '@/ipc/bindings';
import { app } from '@/ipc/app';
import type { OpenWith } from '@/ipc/app';
import { call } from '@/ipc/call';
import { isLive } from '@/lib/state';
import { useLive } from '@/live/store';
import { useToasts } from '@/ui/toasts';

/** An agent that had a terminal gets one of this size again. */
const TERMINAL = { columns: 120, rows: 40 };

/** What can be done about a run as a whole. */
export function useRunActions(run: () => RunView) {
  const live = useLive();
  const toasts = useToasts();
  const router = useRouter();
  const isStopping = ref(false);
  const isRetrying = ref(false);
  const asksToStop = ref(false);
  /** Set while the operator is asked about files that an editor would load by itself. */
  const planted = shallowRef<{ with: OpenWith; flags: string[]; words: string } | null>(null);

  /** Why an action cannot be taken now; null when it can. */
  const stopReason = computed(() => (isLive(run()) ? null : 'The run is over'));
  const retryReason = computed(() => {
    if (isLive(run())) return 'The run still goes on';
    return run().state === 'merging' ? 'The run is being merged' : null;
  });
  const openReason = computed(() =>
    run().state === 'discarded' ? 'Its worktree was removed; restore it in Changes first' : null,
  );

  function say(what: string, failure: Failure): void {
    const hint = failure.hint ?? null;
    toasts.show({ tone: 'bad', text: `${what}: ${failure.message}.${hint === null ? '' : ` ${hint}`}` });
  }

  async function stop(): Promise<void> {
    isStopping.value = true;
    const answer = await call.runStop({ run: run().id });
    isStopping.value = false;
    asksToStop.value = false;
    live.refreshRun(run().id);
    if (!answer.ok) say('The run was not stopped', answer.failure);
  }

  async function retry(): Promise<void> {
    isRetrying.value = true;
    const answer = await call.runRetry({ run: run().id, terminal: TERMINAL });
    isRetrying.value = false;
    if (!answer.ok) {
      say('No new attempt was started', answer.failure);
      return;
    }
    live.refreshRun(answer.value.run.id);
    await router.push({ name: 'run', params: { id: answer.value.run.id } });
  }

  async function open(how: OpenWith, confirmed = false): Promise<void> {
    planted.value = null;
    const answer = await app.openWorktree({ run: run().id, with: how, confirmed });
    if (!answer.ok) {
      say('The worktree was not opened', answer.failure);
      return;
    }
    const { opened, flags, words } = answer.value;
    if (!opened && flags.length > 0 && !confirmed) planted.value = { with: how, flags, words };
    else if (!opened) toasts.show({ tone: 'warn', text: words });
  }

  return { isStopping, isRetrying, asksToStop, planted, stopReason, retryReason, openReason, stop, retry, open };
}
