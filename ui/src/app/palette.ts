import { computed, onScopeDispose, ref, shallowRef } from 'vue';

/** Something the operator can do now. */
export interface Action {
  id: string;
  title: string;
  keys?: string;
  group?: string;
  run: () => void;
  /** Why it cannot be done now; it is listed all the same. */
  disabled?: string;
}

type Source = () => readonly Action[];
const sources = shallowRef<readonly Source[]>([]);

export const paletteIsOpen = ref(false);

/** Every action of what is on the screen, the newest part first; an id counts once. */
export const allActions = computed<Action[]>(() => {
  const known = new Map<string, Action>();
  for (const source of [...sources.value].reverse()) {
    for (const action of source()) if (!known.has(action.id)) known.set(action.id, action);
  }
  return [...known.values()];
});

/** Offers actions in the palette while the caller is on the screen. */
export function useActions(source: () => readonly Action[]): void {
  sources.value = [...sources.value, source];
  onScopeDispose(() => {
    sources.value = sources.value.filter((other) => other !== source);
  });
}
