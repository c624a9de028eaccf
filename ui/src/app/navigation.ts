import { ref } from 'vue';
import type { Router } from 'vue-router';
import { app, onNavigate } from '@/ipc/app';
import type { LinkedOrder, Navigation, Unsubscribe } from '@/ipc/app';

/** Why the inbox is shown instead of what a link asked for. */
export const inboxSentence = ref<string | null>(null);
/** What a link says of a new order: the form takes it once. Untrusted text. */
export const linkedOrder = ref<LinkedOrder | null>(null);
/** How many runs are alive, while it is asked what becomes of them. */
export const quitAsked = ref<number | null>(null);

/** Goes where the desktop asks the window to go. It never decides anything. */
export function go(router: Router, where: Navigation): void {
  switch (where.kind) {
    case 'block':
      void router.push({ name: 'inbox', params: { block: where.id } });
      return;
    case 'run':
      void router.push({ name: 'run', params: { id: where.id } });
      return;
    case 'inbox':
      inboxSentence.value = where.sentence;
      void router.push({ name: 'inbox' });
      return;
    case 'order':
      linkedOrder.value = where.draft;
      void router.push({ name: 'new-order' });
      return;
    case 'quit_asked':
      quitAsked.value = where.running;
      return;
    default: {
      const unknown: never = where;
      console.warn('the desktop asks for a place that this window does not know', unknown);
    }
  }
}

/** Follows the desktop's wishes: those of before the window was ready first, then every new one. */
export async function followNavigation(router: Router): Promise<Unsubscribe> {
  const unsubscribe = await onNavigate((where) => go(router, where));
  const earlier = await app.takeNavigation();
  if (earlier.ok) for (const where of earlier.value) go(router, where);
  return unsubscribe;
}
