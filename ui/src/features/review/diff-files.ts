// The list of changed files: what a reviewer must see first on top (what tools load by themselves, links out), then files, then generated ones, folded.

import type { DiffFile } from '@/ipc/bindings';
import { count, figure } from '@/lib/count';

export type FileGroup = 'flagged' | 'files' | 'folded';

export type ListRow =
  | { readonly kind: 'group'; readonly group: FileGroup; readonly label: string; readonly open: boolean }
  | { readonly kind: 'file'; readonly group: FileGroup; readonly file: DiffFile; readonly index: number };

/** Lines beyond which a file is not read before the operator asks for it. */
export const MANY_LINES = 20_000;

/** What a reviewer must see about a file first. */
export function flagsOf(file: DiffFile): readonly string[] {
  return file.flags ?? [];
}

export function groupOf(file: DiffFile): FileGroup {
  if (flagsOf(file).length > 0) return 'flagged';
  return file.generated ? 'folded' : 'files';
}

const LABELS: Readonly<Record<FileGroup, string>> = {
  flagged: 'Look at these first',
  files: 'Files',
  folded: 'Generated and lock files',
};

export function isBinary(file: DiffFile): boolean {
  return file.added === null && file.removed === null;
}

/** Lines that changed; 0 for a binary file. */
export function changedLines(file: DiffFile): number {
  return (file.added ?? 0) + (file.removed ?? 0);
}

/** Rows of the list. A filter opens every group, so that nothing that matches is out of sight. */
export function listRows(files: readonly DiffFile[], filter: string, open: ReadonlySet<FileGroup>): ListRow[] {
  const wanted = filter.trim().toLowerCase();
  const groups: Record<FileGroup, { file: DiffFile; index: number }[]> = { flagged: [], files: [], folded: [] };
  for (const [index, file] of files.entries()) {
    if (wanted === '' || file.path.toLowerCase().includes(wanted)) groups[groupOf(file)].push({ file, index });
  }
  return (['flagged', 'files', 'folded'] as const).flatMap((group): ListRow[] => {
    const members = groups[group];
    if (members.length === 0) return [];
    const shown = wanted !== '' || group === 'flagged' || open.has(group);
    const head: ListRow = { kind: 'group', group, label: `${LABELS[group]} · ${figure(members.length)}`, open: shown };
    return [head, ...(shown ? members.map(({ file, index }): ListRow => ({ kind: 'file', group, file, index })) : [])];
  });
}

/** The file after or before one in the order in which they are listed; the first when there is none. */
export function stepFile(rows: readonly ListRow[], path: string | null, by: 1 | -1): DiffFile | null {
  const files = rows.flatMap((row) => (row.kind === 'file' ? [row.file] : []));
  const at = files.findIndex((file) => file.path === path);
  if (at < 0) return files[0] ?? null;
  return files[at + by] ?? null;
}

/** The file to begin with: the first flagged one, else the first that was written by hand. */
export function firstFile(files: readonly DiffFile[]): DiffFile | null {
  const by = (group: FileGroup): DiffFile | undefined => files.find((file) => groupOf(file) === group);
  return by('flagged') ?? by('files') ?? files[0] ?? null;
}

/** All of it in words: "12 files, +340 −12". */
export function totals(files: readonly DiffFile[]): string {
  const added = files.reduce((sum, file) => sum + (file.added ?? 0), 0);
  const removed = files.reduce((sum, file) => sum + (file.removed ?? 0), 0);
  return `${count(files.length, 'file')}, +${figure(added)} −${figure(removed)}`;
}

const CHANGES: Readonly<Record<string, string>> = {
  added: 'A',
  modified: 'M',
  deleted: 'D',
  renamed: 'R',
  mode: 'X',
};

/** A letter for a kind of change; its word is its title. */
export function changeLetter(change: string): string {
  return CHANGES[change] ?? '?';
}
