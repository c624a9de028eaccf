// A command as one types it, split into program and arguments the way a shell would, and nothing more: no
// variables, patterns, pipes or redirections. What a shell would do with those is said instead.

export interface Split {
  readonly argv: readonly string[];
  /** Why it cannot be split; absent when it can. */
  readonly fault: string | null;
  /** What a shell would have understood and nobody does here. */
  readonly note: string | null;
}

const SHELL_ONLY = /[|&;<>`$*?(){}~]/;
/** Stands for the prompt and is no pattern. */
const PROMPT = '{prompt}';

/** Splits at blanks outside of quotes. */
export function splitArgs(text: string): Split {
  const argv: string[] = [];
  let word: string | null = null;
  let plain = '';
  let note: string | null = null;
  let at = 0;
  const fault = (why: string): Split => ({ argv, fault: why, note: null });
  const end = (): void => {
    if (word === null) return;
    if (note === null && SHELL_ONLY.test(plain.replaceAll(PROMPT, ''))) {
      note = `No shell reads this, so “${plain}” is passed as it is. For a shell's meaning write: sh -c '…'`;
    }
    argv.push(word);
    word = null;
    plain = '';
  };
  while (at < text.length) {
    const letter = text.charAt(at);
    if (/\s/.test(letter)) {
      end();
    } else if (letter === "'") {
      const close = text.indexOf("'", at + 1);
      if (close < 0) return fault("A single quote is opened and not closed. Close it, or write \\' for the letter.");
      word = (word ?? '') + text.slice(at + 1, close);
      at = close;
    } else if (letter === '"') {
      let inner = '';
      at += 1;
      while (at < text.length && text.charAt(at) !== '"') {
        if (text.charAt(at) === '\\' && /["\\$`\n]/.test(text.charAt(at + 1))) at += 1;
        inner += text.charAt(at);
        at += 1;
      }
      if (at >= text.length) return fault('A double quote is opened and not closed. Close it, or write \\" for the letter.');
      word = (word ?? '') + inner;
    } else if (letter === '\\') {
      if (at + 1 >= text.length) return fault('It ends with a backslash. Write \\\\ for the letter, or take it away.');
      at += 1;
      if (text.charAt(at) !== '\n') word = (word ?? '') + text.charAt(at);
    } else {
      word = (word ?? '') + letter;
      plain += letter;
    }
    at += 1;
  }
  end();
  return { argv, fault: null, note };
}

/** A command that {@link splitArgs} splits into exactly these words. */
export function joinArgs(argv: readonly string[]): string {
  return argv.map((word) => (/^[\w@%+=:,./-]+$/.test(word) || word === PROMPT ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(' ');
}
