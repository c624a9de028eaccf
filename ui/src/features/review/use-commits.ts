// The commits of a run in its review: read in pages that fit to the diff that is shown, and one of them picked, whose
// own changes are shown instead of all of them.

import { ref, shallowRef, watch } from 'vue';
import type { Ref } from 'vue';
import type { CommitView, DiffFile, DiffFileView, DiffView, Failure } from '@/ipc/bindings';
import { call } from '@/ipc/call';
import type { Result } from '@/ipc/call';

/** Commits of one page. */
export const PAGE = 100;

export function useCommits(run: () => string, whole: Readonly<Ref<DiffView | null>>, moved: () => void) {
  const list = shallowRef<readonly CommitView[]>([]);
  const total = ref(0);
  const truncated = ref(false);
  const more = ref<number | null>(null);
  const failure = shallowRef<Failure | null>(null);
  const reading = ref(false);
  const picked = shallowRef<CommitView | null>(null);
  /** What the picked commit changes; absent until it is read. */
  const diff = shallowRef<DiffView | null>(null);
  const diffFailure = shallowRef<Failure | null>(null);
  /** An answer of an older turn is about what is not shown any more. */
  let turn = 0;

  async function read(skip: number): Promise<void> {
    const expect = whole.value?.expect;
    if (expect === undefined || reading.value) return;
    const mine = turn;
    reading.value = true;
    failure.value = null;
    const answer = await call.runCommits({ run: run(), expect, skip, limit: PAGE });
    if (mine !== turn) return;
    reading.value = false;
    if (!answer.ok) {
      failure.value = answer.failure;
      if (answer.failure.code === 'stale') moved();
      return;
    }
    const page = answer.value;
    list.value = skip === 0 ? page.commits : [...list.value, ...page.commits];
    [total.value, truncated.value, more.value] = [page.total, page.truncated, page.next];
  }

  async function readPicked(): Promise<void> {
    const commit = picked.value;
    if (commit === null) return;
    diff.value = null;
    diffFailure.value = null;
    const answer = await call.runDiff({ run: run(), commit: commit.sha, patch: false });
    if (picked.value !== commit) return;
    if (answer.ok) diff.value = answer.value;
    else diffFailure.value = answer.failure;
  }

  /** Shows one commit by itself; all of them again with nothing. */
  function pick(commit: CommitView | null): void {
    picked.value = commit;
    [diff.value, diffFailure.value] = [null, null];
    void readPicked();
  }

  /** One file of the picked commit. */
  async function readFile(file: DiffFile): Promise<Result<DiffFileView>> {
    const [commit, of] = [picked.value, diff.value];
    if (!commit || !of) return { ok: false, failure: { code: 'stale', message: 'The commit is being read' } };
    const answer = await call.runDiffFile({ run: run(), expect: of.expect, path: file.path, commit: commit.sha });
    if (!answer.ok && answer.failure.code === 'stale') moved();
    return answer;
  }

  // A run that moved has other commits, or the same under another token: all of them are shown then.
  watch(
    () => [run(), whole.value?.expect] as const,
    () => {
      turn += 1;
      reading.value = false;
      list.value = [];
      [total.value, truncated.value, more.value, failure.value] = [0, false, null, null];
      pick(null);
      void read(0);
    },
    { immediate: true },
  );

  return {
    list, total, truncated, more, failure, reading, picked, diff, diffFailure, pick, readFile,
    readPicked,
    readMore: () => read(more.value ?? list.value.length),
  };
}
