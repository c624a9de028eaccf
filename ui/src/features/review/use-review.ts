// One run's review: what is shown, what can be done about it, and doing it.

import { computed, inject, onScopeDispose, provide, ref, shallowRef, watch } from 'vue';
import type { InjectionKey } from 'vue';
import type { DiffFile, DiffFileView, Failure, MergeEntry, MergeRequest, PushView, RunView, SyncOutcome } from '@/ipc/bindings';
import { call } from '@/ipc/call';
import type { Result } from '@/ipc/call';
import { useLive } from '@/live/store';
import { next, shownOf, sinceOf, START } from './flow';
import type { Flow, FlowEvent } from './flow';
import { isUnderWay } from './gate-words';
import { splitPatch } from './patch';
import { useCommits } from './use-commits';
import { useDraft } from './use-draft';
import { mayHaveChanges, verdictOf } from './verdict';

const WAIT_MS = 20_000;
/** Pause after a question about the queue that could not be answered. */
const PAUSE_MS = 2000;

/** What is said with a merge that is refused without it. */
export interface MergeWords {
  /** Why it may be merged although its checks did not pass. */
  readonly despite: string | null;
  /** The secret in its commits may go along. */
  readonly secrets: boolean;
}

export function createReview(run: () => RunView) {
  const live = useLive();
  const flow = shallowRef<Flow>(START);
  const doing = ref<string | null>(null);
  const failure = shallowRef<Failure | null>(null);
  const synced = shallowRef<SyncOutcome | null>(null);
  const entry = shallowRef<MergeEntry | null>(null);
  const before = ref(0);
  let [turn, gone] = [0, false];
  onScopeDispose(() => (gone = true));

  const tell = (event: FlowEvent): void => {
    flow.value = next(flow.value, event);
  };

  /** Reads all of it again, and by itself what is new since the head that was looked at. */
  async function load(): Promise<void> {
    if (!mayHaveChanges(run())) return;
    const mine = (turn += 1);
    tell({ is: 'asked' });
    const answer = await call.runDiff({ run: run().id, patch: false });
    if (mine !== turn || gone) return;
    if (!answer.ok) return tell({ is: 'failed', failure: answer.failure });
    const since = sinceOf(flow.value, answer.value);
    tell({ is: 'read', diff: answer.value });
    entry.value = answer.value.gate?.queue ?? null;
    if (since === null || flow.value.fresh !== null) return;
    const fresh = await call.runDiff({ run: run().id, since, patch: true });
    if (mine !== turn || gone) return;
    if (fresh.ok) tell({ is: 'read_new', since, diff: fresh.value });
    else tell({ is: 'no_new', failure: fresh.failure });
  }

  const head = computed(() => flow.value.diff?.head ?? null);
  const draft = useDraft(() => run().id, head);
  const commits = useCommits(() => run().id, computed(() => flow.value.diff), () => void load());
  const shown = computed(() => (commits.picked.value === null ? shownOf(flow.value) : commits.diff.value));
  const verdict = computed(() => verdictOf({ run: run(), diff: flow.value.diff, entry: entry.value, doing: doing.value }));

  /** The patch of one file of what is shown. */
  async function readFile(file: DiffFile): Promise<Result<DiffFileView>> {
    if (commits.picked.value !== null) return commits.readFile(file);
    const of = shown.value;
    if (!of) return { ok: false, failure: { code: 'stale', message: 'The changes are being read again' } };
    if (flow.value.showing === 'new') {
      const parts = splitPatch(of.patch);
      const at = of.files.findIndex((one) => one.path === file.path);
      const patch = parts[at] ?? '';
      const truncated = of.truncated && at >= parts.length - 1;
      return { ok: true, value: { patch, truncated, binary: file.added === null, old_size: null, new_size: null } };
    }
    const answer = await call.runDiffFile({ run: run().id, expect: of.expect, path: file.path });
    if (!answer.ok && answer.failure.code === 'stale') void load();
    return answer;
  }

  /** Does one thing at a time; what was shown may have moved meanwhile, so that it is read again. */
  async function act<T>(words: string, ask: () => Promise<Result<T>>): Promise<T | null> {
    if (doing.value !== null) return null;
    doing.value = words;
    failure.value = null;
    synced.value = null;
    const answer = await ask();
    doing.value = null;
    if (!answer.ok) failure.value = answer.failure;
    void live.refreshRun(run().id);
    if (answer.ok || answer.failure.code === 'stale' || answer.failure.code === 'conflict') await load();
    return answer.ok ? answer.value : null;
  }

  function request({ despite, secrets }: MergeWords): MergeRequest {
    const words = { ...(despite === null ? {} : { despite_checks: despite }), ...(secrets ? { with_secrets: true } : {}) };
    return { run: run().id, expect: flow.value.diff?.expect ?? '', ...words };
  }

  async function place(): Promise<void> {
    const all = await call.mergeList({});
    if (!all.ok || gone) return;
    const mine = all.value.merges.findIndex((one) => one.run === run().id);
    const here = (one: MergeEntry): boolean => live.runs.get(one.run)?.repo === run().repo;
    before.value = mine < 0 ? 0 : all.value.merges.slice(0, mine).filter(here).length;
  }

  /** Follows the run's place in the queue until it is over. */
  async function follow(): Promise<void> {
    while (!gone && isUnderWay(entry.value)) {
      await place();
      const answer = await call.mergeList({ run: run().id, all: true, wait_ms: before.value > 0 ? PAUSE_MS : WAIT_MS });
      if (gone) return;
      if (answer.ok) entry.value = answer.value.merges[0] ?? null;
      else await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
    if (!gone) await load();
  }
  watch(() => isUnderWay(entry.value), (now) => now && void follow());

  const standing = (one: RunView): string => (one.state === 'review' ? one.head : one.state);
  watch(
    () => [run().id, standing(run()), run().behind, run().revision] as const,
    ([id], old) => {
      if (old && old[0] !== id) {
        [flow.value, entry.value, failure.value, synced.value] = [START, null, null, null];
      }
      if (doing.value === null) void load();
    },
    { immediate: true },
  );

  return {
    flow, shown, commits, verdict, doing, failure, synced, entry, before, draft, load, readFile,
    run: computed(run),
    show: (what: 'all' | 'new') => {
      commits.pick(null);
      tell({ is: 'show', what });
    },
    looked: () => tell({ is: 'looked' }),
    dismiss: () => ([failure.value, synced.value] = [null, null]),
    merge: (words: MergeWords) => act('It is being merged.', () => call.runMerge(request(words))),
    async queue(words: MergeWords) {
      const put = await act('It is being put into the merge queue.', () => call.mergeQueue(request(words)));
      if (put) entry.value = put;
      return put;
    },
    async sync() {
      const done = await act('It is being synced and checked.', () => call.runSync({ run: run().id }));
      if (done) synced.value = done.sync;
      return done;
    },
    discard: () => act('It is being discarded.', () => call.runDiscard({ run: run().id })),
    restore: () => act('It is being restored.', () => call.runRestore({ run: run().id })),
    send: (message: string) => act('The comments are being sent.', () => call.runFollowUp({ run: run().id, message })),
    push: (remote: string, branch: string | null, replace: boolean): Promise<PushView | null> =>
      act('It is being pushed.', () => call.runPush({ run: run().id, expect: flow.value.diff?.expect ?? '', remote, branch, replace })),
  };
}

export type Review = ReturnType<typeof createReview>;
const KEY: InjectionKey<Review> = Symbol('review');

export function provideReview(run: () => RunView): Review {
  const review = createReview(run);
  provide(KEY, review);
  return review;
}

export function useReview(): Review {
  const review = inject(KEY);
  if (!review) throw new Error('a part of a review stands outside of one');
  return review;
}
