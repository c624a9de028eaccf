import { computed, ref } from 'vue';
import { call } from '@/ipc/call';
import { useLive } from '@/live/store';
import { useToasts } from '@/ui/toasts';

/** The queue of orders: whether it starts anything, and how to pause or resume it. */
export function useQueue() {
  const live = useLive();
  const toasts = useToasts();
  const busy = ref(false);
  const paused = computed(() => live.queue?.paused ?? false);
  const words = computed(() => {
    if (live.queue?.dispatching === false) return 'Nothing starts orders now';
    return paused.value ? 'Queue paused' : 'Queue open';
  });
  const waiting = computed(() => live.queue?.waiting ?? 0);

  async function toggle(): Promise<void> {
    busy.value = true;
    const pause = !paused.value;
    const answer = await call.ordersPause({ paused: pause });
    busy.value = false;
    if (answer.ok) {
      const text = pause ? 'The queue is paused. Runs that go on are not touched.' : 'The queue starts orders again.';
      toasts.show({ tone: 'good', text });
      live.refreshOrders();
    } else {
      toasts.show({ tone: 'bad', text: `The queue stays as it was: ${answer.failure.message}.` });
    }
  }

  return { busy, paused, words, waiting, toggle };
}
