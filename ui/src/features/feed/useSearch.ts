import { computed, onScopeDispose, ref, shallowRef, watch } from 'vue';
import type { Event, Failure } from '@/ipc/bindings';
import { call } from '@/ipc/call';

const DEBOUNCE_MS = 300;
const PAGE = 50;

/** Looking for words in one run: the engine reads, newest first, and is asked again for older ones. */
export function useSearch(run: () => string, kinds: () => readonly string[]) {
  const typed = ref('');
  const hits = shallowRef<readonly Event[]>([]);
  const older = shallowRef<string | null>(null);
  const failure = shallowRef<Failure | null>(null);
  const isBusy = ref(false);
  /** The hit that was gone to last. */
  const at = ref(-1);
  let asked = 0;
  let timer: ReturnType<typeof setTimeout> | undefined;

  const text = computed(() => typed.value.trim());

  async function ask(before: string | null): Promise<void> {
    const mine = ++asked;
    isBusy.value = true;
    failure.value = null;
    const answer = await call.eventSearch({
      text: text.value,
      run: run(),
      kinds: [...kinds()],
      before,
      limit: PAGE,
    });
    if (mine !== asked) return;
    isBusy.value = false;
    if (!answer.ok) {
      failure.value = answer.failure;
      return;
    }
    hits.value = before === null ? answer.value.events : [...hits.value, ...answer.value.events];
    older.value = answer.value.next;
  }

  function clear(): void {
    asked += 1;
    hits.value = [];
    older.value = null;
    failure.value = null;
    isBusy.value = false;
    at.value = -1;
  }

  watch([text, kinds], ([now]) => {
    clearTimeout(timer);
    clear();
    if (now === '') return;
    isBusy.value = true;
    timer = setTimeout(() => void ask(null), DEBOUNCE_MS);
  });
  onScopeDispose(() => {
    clearTimeout(timer);
    asked += 1;
  });

  /** The next hit of the list, or the one before; null where there is none. */
  function step(by: 1 | -1): Event | null {
    const to = at.value + by;
    const hit = hits.value[to];
    if (hit === undefined) return null;
    at.value = to;
    return hit;
  }

  return {
    typed,
    isOpen: computed(() => text.value !== ''),
    hits,
    older,
    failure,
    isBusy,
    at,
    step,
    again: () => void ask(null),
    more: () => (older.value === null ? undefined : void ask(older.value)),
    stop: () => {
      typed.value = '';
    },
  };
}
