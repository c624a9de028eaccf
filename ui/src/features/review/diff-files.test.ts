import { describe, expect, it } from 'vitest';
import type { DiffFile } from '@/ipc/bindings';
import { firstFile, listRows, stepFile, totals } from './diff-files';

function file(path: string, changes: Partial<DiffFile> = {}): DiffFile {
  return { path, change: 'modified', added: 1, removed: 2, generated: false, flags: [], ...changes };
}

const FILES = [
  file('.vscode/tasks.json', { flags: ['an editor runs it'], generated: true }),
  file('Cargo.lock', { generated: true }),
  file('src/a.rs'),
  file('src/b.bin', { added: null, removed: null }),
];
const NONE = new Set<never>();

function shape(rows: ReturnType<typeof listRows>): string[] {
  return rows.map((row) => (row.kind === 'group' ? `# ${row.label}` : row.file.path));
}

describe('listRows', () => {
  it('puts flagged files first and folds generated ones', () => {
    expect(shape(listRows(FILES, '', new Set(['files'])))).toEqual([
      '# Look at these first · 1', '.vscode/tasks.json', '# Files · 2', 'src/a.rs', 'src/b.bin', '# Generated and lock files · 1',
    ]);
  });
  it('never folds a flagged file, though it is generated', () => {
    expect(shape(listRows(FILES, '', NONE))).toContain('.vscode/tasks.json');
  });
  it('opens what a filter finds', () => {
    expect(shape(listRows(FILES, 'LOCK', NONE))).toEqual(['# Generated and lock files · 1', 'Cargo.lock']);
  });
  it('copes with many files', () => {
    const many = Array.from({ length: 10_000 }, (_, at) => file(`f${String(at)}`));
    expect(listRows(many, '', new Set(['files']))).toHaveLength(10_001);
  });
});

describe('the order of files', () => {
  it('begins with what matters most', () => {
    expect(firstFile(FILES)?.path).toBe('.vscode/tasks.json');
    expect(firstFile(FILES.slice(1))?.path).toBe('src/a.rs');
    expect(firstFile([])).toBeNull();
  });
  it('steps through what is listed', () => {
    const rows = listRows(FILES, '', new Set(['files']));
    expect(stepFile(rows, '.vscode/tasks.json', 1)?.path).toBe('src/a.rs');
    expect(stepFile(rows, 'src/b.bin', 1)).toBeNull();
    expect(stepFile(rows, 'Cargo.lock', 1)?.path).toBe('.vscode/tasks.json');
  });
  it('is summed up', () => {
    expect(totals(FILES)).toBe('4 files, +3 −6');
  });
});
