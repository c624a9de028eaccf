/** Keyboard chords and sequences as text: "j", "g b", "mod+k", "shift+Enter", "?". Pure. */

export interface Pressed {
  key: string;
  ctrlKey: boolean;
  metaKey: boolean;
  altKey: boolean;
  shiftKey: boolean;
}

/** The chord of a key event. Shift is not named for printable keys: "?" is the chord of Shift and "/". */
export function chordOf(event: Pressed): string {
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const parts: string[] = [];
  if (event.ctrlKey || event.metaKey) parts.push('mod');
  if (event.altKey) parts.push('alt');
  if (event.shiftKey && (event.key.length > 1 || parts.length > 0)) parts.push('shift');
  parts.push(key === ' ' ? 'Space' : event.shiftKey && parts.length === 0 ? event.key : key);
  return parts.join('+');
}

/** True for a chord that types something or moves within a field: it is left alone there. */
export function isBare(chord: string): boolean {
  return !chord.includes('mod+') && !chord.includes('alt+');
}

export type Step = { hit: string } | { wait: string } | { miss: true };

/** What a chord means after what was typed before it, given every sequence that counts now. */
export function advance(typed: string, chord: string, known: readonly string[]): Step {
  const whole = typed ? `${typed} ${chord}` : chord;
  if (known.includes(whole)) return { hit: whole };
  if (known.some((sequence) => sequence.startsWith(`${whole} `))) return { wait: whole };
  return typed ? advance('', chord, known) : { miss: true };
}
