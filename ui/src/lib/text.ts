/**
 * Text from runs is untrusted: it may hold terminal escapes, direction overrides and invisible characters.
 * Everything here turns such characters into marks that can be seen; nothing here makes markup.
 */

/** Letters that are legitimate code points and still show nothing or change what is around them. */
const HIDDEN =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb]|\udb40[\udc00-\uddef]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

function codePoint(mark: string): string {
  const code = mark.codePointAt(0) ?? 0;
  return `⟦U+${code.toString(16).toUpperCase().padStart(4, '0')}⟧`;
}

function mark(found: string): string {
  const code = found.codePointAt(0) ?? 0;
  if (found === '\n') return '⏎';
  if (found === '\t') return '⇥';
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  if (code === 0x7f) return '␡';
  return codePoint(found);
}

/** Every hidden character as a visible mark, line ends and tabs included: for names and other single lines. */
export function visibleText(text: string): string {
  return text.replace(HIDDEN, mark);
}

/** Like {@link visibleText}, but line ends and tabs stay: for text that is shown in several lines. */
export function visibleLines(text: string): string {
  return text
    .replace(/\r\n/g, '\n')
    .replace(HIDDEN, (found) => (found === '\n' || found === '\t' ? found : mark(found)));
}

/** One visible line of at most `max` characters; what is left out shows as an ellipsis. */
export function oneLine(text: string, max = 200): string {
  // Cut first: a title of megabytes costs no more than the part that is shown.
  const head = text.length > max * 4 ? text.slice(0, max * 4) : text;
  const seen = visibleText(head);
  // Most lines are short: no character of theirs has to be counted.
  if (seen.length <= max && head.length === text.length) return seen;
  const shown = Array.from(seen);
  if (shown.length <= max && head.length === text.length) return shown.join('');
  return `${shown.slice(0, Math.max(0, max - 1)).join('')}…`;
}

/** A command line as one would type it: words with blanks or quotes are quoted. Visible, one line. */
export function commandLine(argv: readonly string[], max = 400): string {
  const words = argv.map((word) => (/^[\w@%+=:,./~-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`));
  return oneLine(words.join(' '), max);
}
