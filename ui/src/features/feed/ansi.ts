import Anser from 'anser';
import { visibleText } from '@/lib/text';

/** A stretch of text in one style. The classes are names of ours, never text of a run. */
export interface Stretch {
  text: string;
  style: string;
}

/** Changes of style that a row follows; the rest of its text is plain. */
const MOST_STRETCHES = 24;

const COLOURS: ReadonlySet<string> = new Set([
  'ansi-black',
  'ansi-red',
  'ansi-green',
  'ansi-yellow',
  'ansi-blue',
  'ansi-magenta',
  'ansi-cyan',
  'ansi-white',
]);
const DECORATIONS: Readonly<Record<string, string>> = {
  bold: 'ansi-bold',
  italic: 'ansi-italic',
  underline: 'ansi-underline',
  strikethrough: 'ansi-strike',
};
/** Titles, links and other commands to a terminal that carry text, and the two-character escapes. */
 
const COMMANDS = /\u001b(?:[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\|$)|[ -/]+[0-~]|[0-9=>DEHMNOZc])/g;

/** True when there is something for a terminal in the text. */
export function hasEscapes(text: string): boolean {
  return text.includes('\u001b');
}

/**
 * Terminal text in its colours. Only foregrounds and decorations that leave it readable are followed: text
 * from a cage cannot hide itself. Cursor movement and titles are left out; what remains of control
 * characters is shown as marks.
 */
export function stretchesOf(text: string): Stretch[] {
  const stretches: Stretch[] = [];
  for (const part of Anser.ansiToJson(text.replace(COMMANDS, ''), { json: true, use_classes: true })) {
    const shown = visibleText(part.content);
    if (shown === '') continue;
    const style = stretches.length < MOST_STRETCHES ? styleOf(part.fg, part.decorations) : '';
    const last = stretches.at(-1);
    if (last !== undefined && last.style === style) last.text += shown;
    else stretches.push({ text: shown, style });
  }
  return stretches;
}

/** Terminal text without its escapes, over several lines. */
export function withoutEscapes(text: string): string {
  return hasEscapes(text) ? Anser.ansiToText(text.replace(COMMANDS, '')) : text;
}

function styleOf(foreground: string | null, decorations: readonly string[]): string {
  const names: string[] = [];
  const colour = (foreground ?? '').replace('-bright-', '-');
  if (COLOURS.has(colour)) names.push(colour);
  for (const decoration of decorations) {
    const name = DECORATIONS[decoration];
    if (name !== undefined && !names.includes(name)) names.push(name);
  }
  return names.join(' ');
}
