// The cards of one list: what is open comes from the live state, what was decided meanwhile keeps its place
// until the operator clears it or leaves.

import { computed, nextTick, onScopeDispose, shallowReactive, shallowRef, watch } from 'vue';
import type { BlockId, BlockView, RunId } from '@/ipc/bindings';
import { call } from '@/ipc/call';
import { asksNow, runOfBlock } from '@/live/plan';
import { useLive } from '@/live/store';
import { hasButtons } from './card';
import { useCards } from './cards';
import { keepPlaces, withoutDecided } from './order';

/** A card and what stands above it. */
export interface Item {
  readonly view: BlockView;
  readonly legend: string | null;
}

/** Blocks of one run that are read one by one; more are read as a list. */
const ONE_BY_ONE = 2;

export function usePlaces(open: () => readonly BlockView[]) {
  const cards = useCards();
  const live = useLive();
  const places = shallowRef<readonly BlockId[]>([]);
  const remembered = shallowReactive(new Map<BlockId, BlockView>());
  const openIds = computed(() => new Set(open().map((view) => view.id)));

  function remember(view: BlockView): void {
    remembered.set(view.id, view);
    cards.see(view);
  }

  /** How blocks stand that are open no more: read, so that their cards can say who decided. */
  async function readLeft(run: RunId, ids: readonly BlockId[]): Promise<void> {
    if (ids.length <= ONE_BY_ONE) {
      for (const view of await Promise.all(ids.map((id) => cards.look(id)))) if (view !== null) remember(view);
      return;
    }
    const answer = await call.blockList({ run, all: true });
    if (!answer.ok) {
      for (const id of ids) cards.cannotSay(id, answer.failure);
      return;
    }
    for (const view of answer.value.blocks) if (ids.includes(view.id)) remember(view);
  }

  watch(
    () => [open(), live.connection === 'loading'] as const,
    ([now, isLoading]) => {
      if (isLoading) {
        // Another engine's blocks, or none yet: what was known is of no use.
        places.value = [];
        remembered.clear();
        return;
      }
      const ids = new Set(now.map((view) => view.id));
      const asked = (id: BlockId): boolean => {
        const view = remembered.get(id);
        return view !== undefined && asksNow(view);
      };
      const left = places.value.filter((id) => !ids.has(id) && asked(id));
      for (const view of now) if (remembered.get(view.id) !== view) remember(view);
      places.value = keepPlaces(places.value, now);
      for (const [run, of] of byRun(left)) void readLeft(run, of);
    },
    { immediate: true },
  );
  // After the cards of this list are gone and those of the next one are there.
  onScopeDispose(() => void nextTick(() => cards.forget()));

  /** True while a card waits for the operator. */
  function isOpen(id: BlockId): boolean {
    if (!openIds.value.has(id)) return false;
    const state = cards.cards.get(id);
    return state === undefined || hasButtons(state);
  }

  const views = computed(() => places.value.flatMap((id) => remembered.get(id) ?? []));
  const decided = computed(() => places.value.filter((id) => !isOpen(id)).length);

  /** Shows a block that is not among the open ones, in the first place. */
  function put(view: BlockView): void {
    remember(view);
    if (!places.value.includes(view.id)) places.value = [view.id, ...places.value];
  }

  /** Takes cards off the list that do not wait any more. */
  function clear(): void {
    places.value = withoutDecided(places.value, isOpen);
  }

  return { views, decided, isOpen, put, clear };
}

function byRun(ids: readonly BlockId[]): Map<RunId, BlockId[]> {
  const runs = new Map<RunId, BlockId[]>();
  for (const id of ids) {
    const run = runOfBlock(id);
    runs.set(run, [...(runs.get(run) ?? []), id]);
  }
  return runs;
}
