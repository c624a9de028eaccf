// Reads one file's unified diff into lines. The text is from a run: hidden characters become marks here, and
// long lines are cut, so that nothing later has to think of either.

import { visibleLines, visibleText } from '@/lib/text';

export type LineKind = 'context' | 'added' | 'removed';
export type Side = 'old' | 'new';

export interface DiffLine {
  readonly kind: LineKind;
  readonly old: number | null;
  readonly new: number | null;
  readonly text: string;
  /** Characters that are not shown. */
  readonly cut: number;
  /** True when the file ends here without a line end. */
  readonly open: boolean;
}

export interface Hunk {
  readonly header: string;
  readonly lines: readonly DiffLine[];
}

export interface Patch {
  readonly hunks: readonly Hunk[];
  readonly lines: number;
  /** What changed beside lines, as sentences: a mode, a name. */
  readonly notes: readonly string[];
}

/** Longest part of a line that is shown. */
export const LONGEST_LINE = 2000;
const HUNK = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@(.*)$/;

function shown(raw: string): { text: string; cut: number } {
  const head = raw.length > LONGEST_LINE ? raw.slice(0, LONGEST_LINE) : raw;
  return { text: visibleLines(head), cut: raw.length - head.length };
}

/** What a header line of git says about the file, when it says more than names and ids. */
function noteOf(line: string): string | null {
  const mode = /^(old|new|deleted file|new file) mode (\d+)$/.exec(line);
  if (mode?.[1] === 'new' && mode[2] === '100755') return 'It can be executed now';
  if (mode?.[1] === 'old' && mode[2] === '100755') return 'It could be executed before';
  if (mode?.[1] === 'new file' && mode[2] === '100755') return 'A new file that can be executed';
  if (mode?.[1] === 'new file' && mode[2] === '120000') return 'A new symbolic link; the text is where it leads';
  if (mode?.[1] === 'new' && mode[2] === '120000') return 'It is a symbolic link now; the text is where it leads';
  if (mode?.[2] === '160000') return 'A link to a commit of another repository';
  const from = /^(rename|copy) from (.*)$/.exec(line);
  if (from) return `${from[1] === 'copy' ? 'Copied' : 'Renamed'} from ${visibleText(from[2] ?? '')}`;
  return null;
}

/** Reads a patch of one file. What is no diff gives no hunks. */
export function parsePatch(text: string): Patch {
  const hunks: { header: string; lines: DiffLine[] }[] = [];
  const notes: string[] = [];
  let hunk: { header: string; lines: DiffLine[] } | null = null;
  let [old, next, oldLeft, nextLeft, lines] = [0, 0, 0, 0, 0];
  const rows = text.split('\n');
  if (rows.at(-1) === '') rows.pop();
  for (const row of rows) {
    const inside: boolean = hunk !== null && (oldLeft > 0 || nextLeft > 0);
    if (!inside) {
      if (row.startsWith('\\') && hunk) {
        const last = hunk.lines.at(-1);
        if (last) hunk.lines[hunk.lines.length - 1] = { ...last, open: true };
        continue;
      }
      const head = HUNK.exec(row);
      if (head) {
        [old, next] = [Number(head[1]), Number(head[3])];
        [oldLeft, nextLeft] = [Number(head[2] ?? 1), Number(head[4] ?? 1)];
        hunk = { header: shown(row).text, lines: [] };
        hunks.push(hunk);
      } else if (!hunk) {
        const note = noteOf(row);
        if (note !== null) notes.push(note);
      }
      continue;
    }
    if (row.startsWith('\\')) {
      const last = hunk?.lines.at(-1);
      if (hunk && last) hunk.lines[hunk.lines.length - 1] = { ...last, open: true };
      continue;
    }
    const kind: LineKind = row.startsWith('+') ? 'added' : row.startsWith('-') ? 'removed' : 'context';
    const line = { kind, ...shown(row.slice(1)), open: false };
    hunk?.lines.push({ ...line, old: kind === 'added' ? null : old, new: kind === 'removed' ? null : next });
    if (kind !== 'added') [old, oldLeft] = [old + 1, oldLeft - 1];
    if (kind !== 'removed') [next, nextLeft] = [next + 1, nextLeft - 1];
    lines += 1;
  }
  return { hunks, lines, notes };
}

/** Splits a patch of several files into one text each, in their order. */
export function splitPatch(patch: string): string[] {
  const parts: string[] = [];
  let [from, at] = [-1, patch.startsWith('diff --git ') ? 0 : patch.indexOf('\ndiff --git ') + 1];
  if (at === 0 && !patch.startsWith('diff --git ')) return patch === '' ? [] : [patch];
  while (at >= 0) {
    if (from >= 0) parts.push(patch.slice(from, at));
    from = at;
    const found = patch.indexOf('\ndiff --git ', at);
    at = found < 0 ? -1 : found + 1;
  }
  parts.push(patch.slice(from));
  return parts;
}
