import type { Event } from '@/ipc/bindings';
import type { RowView } from './format';

/** An event as the list keeps it: long text is cut, so that what is kept stays small. */
export interface FeedRow {
  readonly seq: number;
  readonly event: Event;
  /** True when the event has more than is kept here; the detail pane asks for all of it. */
  readonly cut: boolean;
  /** How it is shown, once it was. */
  view: RowView | null;
}

/** Characters of an output line that are kept for its row. */
export const KEPT_TEXT = 1024;

/** What the list keeps of an event. */
export function rowOf(event: Event): FeedRow {
  if (event.kind !== 'output') return { seq: event.seq, event, cut: false, view: null };
  const isLong = event.text.length > KEPT_TEXT;
  if (!isLong && (event.raw ?? null) === null) return { seq: event.seq, event, cut: false, view: null };
  const text = isLong ? copyOf(event.text.slice(0, KEPT_TEXT)) : event.text;
  return { seq: event.seq, event: { ...event, text, raw: null }, cut: true, view: null };
}

/** The last number that an event stands for. */
export function lastSeqOf(event: Event): number {
  return event.kind === 'gap' ? Math.max(event.seq, event.to) : event.seq;
}

/** Characters that an event brought along, where they may be many. */
export function weightOf(event: Event): number {
  return event.kind === 'output' ? event.text.length + (event.raw?.length ?? 0) : 0;
}

/** A string of its own: a slice keeps all of the long string alive that it was cut from. */
function copyOf(text: string): string {
  return Array.from({ length: text.length }, (_, index) => text.charAt(index)).join('');
}
