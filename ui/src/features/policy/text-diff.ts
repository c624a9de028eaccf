// The difference of two texts of which one grew out of the other by one change: what both begin and end
// with stays, the rest is taken out and put in.

/** One line of a difference. */
export interface DiffLine {
  readonly mark: ' ' | '-' | '+';
  readonly text: string;
}

/** Lines that are kept around a change. */
const AROUND = 3;

function linesOf(text: string): string[] {
  if (text === '') return [];
  const lines = text.split('\n');
  if (lines.at(-1) === '') lines.pop();
  return lines;
}

/** The lines of a change with some lines around it; nothing when the texts are equal. */
export function textDiff(before: string, after: string): DiffLine[] {
  const old = linesOf(before);
  const now = linesOf(after);
  const most = Math.min(old.length, now.length);
  let head = 0;
  while (head < most && old[head] === now[head]) head += 1;
  let tail = 0;
  while (tail < most - head && old[old.length - 1 - tail] === now[now.length - 1 - tail]) tail += 1;
  if (head === old.length && head === now.length) return [];
  const line = (mark: DiffLine['mark']) => (text: string) => ({ mark, text });
  return [
    ...old.slice(Math.max(0, head - AROUND), head).map(line(' ')),
    ...old.slice(head, old.length - tail).map(line('-')),
    ...now.slice(head, now.length - tail).map(line('+')),
    ...old.slice(old.length - tail, old.length - tail + AROUND).map(line(' ')),
  ];
}
