// Syntax colours of a diff. The highlighter is given short pieces only: its grammars take minutes over a line of
// megabytes, and what is shown comes from a run.

import type { Hunk } from './patch';

export interface Token {
  readonly text: string;
  /** Kind of the token (`keyword`, `string`); absent for plain text. */
  readonly kind: string | null;
}

/** Tokens of lines, by the line object they belong to. */
export type Colours = WeakMap<object, readonly Token[]>;

const MOST_CHARACTERS = 60_000;
const MOST_LINES = 1500;
const LONGEST_LINE = 400;

/** True where lines are few and short enough for the grammars. */
export function isSmall(lines: readonly { text: string }[]): boolean {
  let all = 0;
  for (const { text } of lines) {
    all += text.length;
    if (text.length > LONGEST_LINE || all > MOST_CHARACTERS) return false;
  }
  return lines.length <= MOST_LINES;
}

/** The language of a file by its name; absent when its name says none. */
export function languageOf(path: string): string | null {
  const name = path.slice(path.lastIndexOf('/') + 1).toLowerCase();
  if (name === 'dockerfile' || name === 'makefile') return name;
  const dot = name.lastIndexOf('.');
  const ending = dot < 0 ? '' : name.slice(dot + 1);
  return /^[a-z0-9+#]{1,12}$/.test(ending) ? ending : null;
}

/** Colours the lines of hunks, a hunk at a time; stops when `stopped` says so. */
export async function colour(hunks: readonly Hunk[], path: string, stopped: () => boolean): Promise<Colours> {
  const colours: Colours = new WeakMap();
  const language = languageOf(path);
  if (language === null) return colours;
  const { grammarOf } = await import('./grammars');
  const grammar = await grammarOf(language);
  if (grammar === null) return colours;
  let left = MOST_LINES * 4;
  for (const hunk of hunks) {
    left -= hunk.lines.length;
    if (left < 0 || stopped()) return colours;
    for (const side of ['removed', 'added'] as const) {
      const lines = hunk.lines.filter((line) => line.kind === 'context' || line.kind === side);
      if (!lines.some((line) => line.kind === side || side === 'added') || !isSmall(lines)) continue;
      const found = grammar(lines.map((line) => line.text).join('\n'));
      // A line whose tokens do not make it up exactly stays plain: what is shown is what was read.
      for (const [at, line] of lines.entries()) {
        const tokens = found[at] ?? [];
        if (tokens.map((token) => token.text).join('') === line.text) colours.set(line, tokens);
      }
    }
    await new Promise((resolve) => setTimeout(resolve));
  }
  return colours;
}

/** Cuts tokens at the borders of what differs, so that both can be shown at once. */
export function pieces(text: string, found: readonly Token[] | undefined, mark: readonly [number, number] | null): { text: string; kind: string | null; marked: boolean }[] {
  const list = found ?? [{ text, kind: null }];
  const parts: { text: string; kind: string | null; marked: boolean }[] = [];
  let at = 0;
  for (const token of list) {
    const end = at + token.text.length;
    const cuts = [at, ...(mark ?? []).filter((cut) => cut > at && cut < end), end];
    for (let index = 0; index + 1 < cuts.length; index += 1) {
      const [from, to] = [cuts[index] ?? at, cuts[index + 1] ?? end];
      if (to > from) parts.push({ text: text.slice(from, to), kind: token.kind, marked: mark !== null && from >= mark[0] && to <= mark[1] });
    }
    at = end;
  }
  return parts;
}
