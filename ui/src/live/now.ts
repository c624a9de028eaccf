import { onScopeDispose, readonly, ref } from 'vue';
import type { Ref } from 'vue';

const now = ref(Date.now());
let readers = 0;
let timer: ReturnType<typeof setInterval> | undefined;

function tick(): void {
  if (!document.hidden) now.value = Date.now();
}

/** Milliseconds since the epoch; moves once a second while the window is visible and somebody reads it. */
export function useNow(): Readonly<Ref<number>> {
  if (readers === 0) {
    now.value = Date.now();
    timer = setInterval(tick, 1000);
    document.addEventListener('visibilitychange', tick);
  }
  readers += 1;
  onScopeDispose(() => {
    readers -= 1;
    if (readers > 0) return;
    clearInterval(timer);
    document.removeEventListener('visibilitychange', tick);
  });
  return readonly(now);
}
