import type { Event, Subject } from '@/ipc/bindings';
import { bytes } from '@/lib/bytes';
import { visibleLines } from '@/lib/text';
import { withoutEscapes } from './ansi';

/** Longest text that the detail pane shows, in characters. */
export const LONGEST_DETAIL = 256 * 1024;

export interface Detail {
  /** What a run said, or null for an event that is all ours. */
  text: string | null;
  json: string;
  notes: string[];
  /** The host that it was about, to filter by. */
  host: string | null;
}

/** All of an event, neutralised and bounded. */
export function detailOf(event: Event): Detail {
  const notes: string[] = [];
  const json = bounded(JSON.stringify(event, null, 2), notes, 'JSON');
  if (event.kind !== 'output') return { text: null, json, notes, host: hostOf(event) };
  const text = bounded(withoutEscapes(event.text), notes, 'text');
  if (event.continued ?? false) notes.push('The line was longer than one event takes: it goes on in the next row.');
  const raw = event.raw ?? null;
  if (raw !== null) {
    notes.push(`Some bytes are not text. The exact ${bytes(bytesOf(raw))} are kept, in base64 under “raw” in the JSON.`);
  }
  return { text, json, notes, host: null };
}

function bounded(text: string, notes: string[], what: string): string {
  if (text.length <= LONGEST_DETAIL) return visibleLines(text);
  notes.push(`The ${what} is shown up to its first ${bytes(LONGEST_DETAIL)}.`);
  return visibleLines(text.slice(0, LONGEST_DETAIL));
}

/** Bytes that a base64 text stands for. */
function bytesOf(base64: string): number {
  const padding = base64.endsWith('==') ? 2 : base64.endsWith('=') ? 1 : 0;
  return Math.max(0, (base64.length / 4) * 3 - padding);
}

function hostOfSubject(subject: Subject): string | null {
  return subject.type === 'egress' ? (subject.host.name ?? subject.host.address ?? null) : null;
}

function hostOf(event: Event): string | null {
  switch (event.kind) {
    case 'egress':
    case 'connection_closed':
      return hostOfSubject(event.subject);
    case 'block':
      return hostOfSubject(event.block.subject);
    case 'name_looked_up':
      return event.name;
    default:
      return null;
  }
}
