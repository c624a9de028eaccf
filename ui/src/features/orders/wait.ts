// Why an order waits, in words and with the orders that it waits for.

import type { OrderId, OrderView, Waiting } from '@/ipc/bindings';
import type { Tone } from '@/lib/state';
import { visibleText } from '@/lib/text';

/** Orders that have to come first, as far as the reason names any. */
export function waitsOn(wait: Waiting): OrderId[] {
  switch (wait.wait) {
    case 'dependency': return wait.on.map((unmet) => unmet.order);
    case 'cycle': return wait.members;
    case 'scope': return wait.held_by ? [wait.held_by] : [];
    case 'fault':
    case 'human_only':
    case 'not_before':
    case 'retry':
    case 'paused':
    case 'live_run':
    case 'has_children':
    case 'kind_not_accepted':
    case 'cap':
    case 'budget': return [];
    default: return [];
  }
}

/** When the wait is over by itself; absent where nobody knows. */
export function waitsUntil(wait: Waiting): string | null {
  if (wait.wait === 'not_before' || wait.wait === 'retry') return wait.at;
  return wait.wait === 'budget' ? (wait.until ?? null) : null;
}

/** Word and colour of an order's state. */
export function orderWord(order: OrderView): { word: string; tone: Tone } {
  switch (order.state) {
    case 'queued':
      if (!order.wait) return { word: 'Next', tone: 'busy' };
      return order.wait.wait === 'fault' || order.wait.wait === 'cycle' ? { word: 'Cannot start', tone: 'bad' } : { word: 'Queued', tone: 'idle' };
    case 'dispatched': return { word: 'Dispatched', tone: 'busy' };
    case 'done': return { word: order.how.how === 'merged' ? 'Done: merged' : 'Done: no changes', tone: 'good' };
    case 'failed': return { word: 'Failed', tone: 'bad' };
    case 'cancelled': return { word: 'Cancelled', tone: 'idle' };
    default: return { word: 'Unknown', tone: 'warn' };
  }
}

/** What a dispatch by hand does now, or why it cannot be asked for. */
export function dispatchOf(order: OrderView): { label: string; reason: string | null } {
  switch (order.state) {
    case 'queued': return { label: 'Dispatch now', reason: null };
    case 'failed':
    case 'cancelled': return { label: 'Start over', reason: null };
    case 'dispatched': return { label: 'Dispatch now', reason: 'It has a run already.' };
    case 'done': return { label: 'Dispatch now', reason: 'It is done.' };
    default: return { label: 'Dispatch now', reason: 'This window does not know the state of the order.' };
  }
}

/** Why it cannot be cancelled; absent when it can. */
export function cancelReason(order: OrderView): string | null {
  if (order.state === 'done') return 'It is done.';
  return order.state === 'cancelled' ? 'It is cancelled already.' : null;
}

/** Why it cannot be edited; absent when it can. */
export function editReason(order: OrderView): string | null {
  return order.state === 'queued' ? null : 'It has started. Cancel it, or hand in another one.';
}

/** Words of the engine as a sentence by itself. */
export function asSentence(words: string): string {
  const shown = visibleText(words);
  return `${shown.charAt(0).toUpperCase()}${shown.slice(1)}${/[.?]$/.test(shown) ? '' : '.'}`;
}
