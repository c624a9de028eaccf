import { computed, nextTick, onScopeDispose, ref, shallowRef, watch } from 'vue';
import type { RunView } from '@/ipc/bindings';
import { call } from '@/ipc/call';
import { useLive } from '@/live/store';
import { FilteredRows } from './filtered';
import { NO_FILTER, isFiltering, wireFilter } from './filter';
import type { FilterState } from './filter';
import { follow, unseen } from './follow';
import type { Follow, FollowEvent } from './follow';
import { DenseRows } from './pages';
import type { FeedRow } from './row';
import type { Ask, Fetch, RowSource } from './source';
import { startTailing } from './tailing';

/** What the list of rows can be told. */
export interface ListHandle {
  show(seq: number): void;
  firstSeen(): number;
  /** Rows came or went. */
  refresh(): void;
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

function fetchOf(run: string): Fetch {
  return async ({ after, before, limit, wait_ms, filter }: Ask) => {
    const request = { run, after, before, limit, wait_ms, kinds: [], ...(filter === null ? {} : { filter }) };
    const answer = await call.runEvents(request);
    if (!answer.ok) return answer;
    const { events, cursor, ended, has_older } = answer.value;
    return { ok: true, value: { events, cursor, ended, has_older: has_older ?? false } };
  };
}

/** The feed of one run: its rows, whether it follows the end, its filter, and the chosen row. */
export function useFeed(run: () => RunView, list: () => ListHandle | null) {
  const fetch = fetchOf(run().id);
  const revision = ref(0);
  const filter = shallowRef<FilterState>(NO_FILTER);
  const standing = shallowRef<Follow>({ mode: 'following', end: run().last_seq });
  const selected = ref<number | null>(null);
  const source = shallowRef<RowSource>(sourceFrom(null));
  let isDue = false;

  function tell(event: FollowEvent): void {
    standing.value = follow(standing.value, event);
    source.value.grow(standing.value.end, isFollowing.value);
    tailing.wake();
  }

  /** Rows came or went: shown with the next frame, however many answers came. */
  function changed(): void {
    if (isDue) return;
    isDue = true;
    requestAnimationFrame(() => {
      isDue = false;
      revision.value += 1;
      standing.value = follow(standing.value, { type: 'grew', end: source.value.newest });
      list()?.refresh();
    });
  }

  function sourceFrom(start: number | null): RowSource {
    const end = Math.max(run().last_seq, standing.value.end);
    if (!isFiltering(filter.value)) return new DenseRows(fetch, end, changed);
    return new FilteredRows(fetch, wireFilter(filter.value), end, start, changed);
  }

  const isFollowing = computed(() => standing.value.mode === 'following');
  const tailing = startTailing({
    source: () => source.value,
    isOn: () => isFollowing.value && !document.hidden && source.value.failure === null,
    pause,
  });

  function setFilter(next: FilterState): void {
    const start = isFollowing.value ? null : (selected.value ?? list()?.firstSeen() ?? null);
    filter.value = next;
    source.value = sourceFrom(start);
    tailing.wake();
  }

  function toEnd(): void {
    selected.value = null;
    // A filtered stretch that is somewhere else begins anew at the end.
    if (isFiltering(filter.value)) source.value = sourceFrom(null);
    tell({ type: 'to_end' });
  }

  function select(seq: number): void {
    selected.value = seq;
    tell({ type: 'picked' });
  }

  /** Goes to an event; a filter that hides it is taken off. */
  async function show(seq: number): Promise<void> {
    select(seq);
    const row = source.value.at(source.value.indexOf(seq));
    if (isFiltering(filter.value) && row?.seq !== seq) setFilter(NO_FILTER);
    await nextTick();
    list()?.show(seq);
  }

  function retry(): void {
    source.value.retry();
    tailing.wake();
  }

  watch(
    () => run().last_seq,
    (end) => tell({ type: 'grew', end }),
  );
  const live = useLive();
  /** An engine that went away and came back answers again without being asked to by hand. */
  watch(
    () => live.connection,
    (now) => {
      if (now === 'live' && source.value.failure !== null) retry();
    },
  );
  document.addEventListener('visibilitychange', tailing.wake);
  onScopeDispose(() => {
    document.removeEventListener('visibilitychange', tailing.wake);
    tailing.stop();
  });

  return {
    source,
    revision,
    filter,
    selected,
    isFollowing,
    fresh: computed(() => unseen(standing.value)),
    failure: computed(() => (revision.value >= 0 ? source.value.failure : null)),
    row: computed<FeedRow | null>(() => {
      const seq = revision.value >= 0 ? selected.value : null;
      const row = seq === null ? null : source.value.at(source.value.indexOf(seq));
      return row?.seq === seq ? row : null;
    }),
    scrolled: (atEnd: boolean) => tell({ type: 'scrolled', atEnd }),
    setFilter,
    select,
    show,
    toEnd,
    retry,
    close: () => {
      selected.value = null;
    },
  };
}
