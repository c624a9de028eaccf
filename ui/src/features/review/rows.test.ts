import { describe, expect, it } from 'vitest';
import { parsePatch } from './patch';
import { anchorOf, differing, rowsOf } from './rows';

const PATCH = parsePatch('@@ -1,4 +1,4 @@\n a\n-let x = 1;\n-gone\n+let x = 22;\n b\n+new\n');

describe('rowsOf', () => {
  it('puts a removed line beside its added one', () => {
    const rows = rowsOf(PATCH, 'split', [], null);
    const shape = rows.map((row) => (row.kind === 'two' ? [row.left?.line.text ?? null, row.right?.line.text ?? null] : row.kind));
    expect(shape).toEqual(['hunk', ['a', 'a'], ['let x = 1;', 'let x = 22;'], ['gone', null], ['b', 'b'], [null, 'new']]);
  });

  it('lists removed before added in one column', () => {
    const rows = rowsOf(PATCH, 'unified', [], null);
    expect(rows.map((row) => (row.kind === 'one' ? `${row.cell.line.kind} ${row.cell.line.text}` : row.kind))).toEqual([
      'hunk', 'context a', 'removed let x = 1;', 'removed gone', 'added let x = 22;', 'context b', 'added new',
    ]);
  });

  it('shows a comment and the editor below their line, on their side', () => {
    const anchor = { path: 'f', side: 'new' as const, line: 2, quote: '' };
    const comment = { id: '1', anchor, text: 'why', at: '' };
    for (const mode of ['split', 'unified'] as const) {
      const kinds = rowsOf(PATCH, mode, [comment], anchor).map((row) => row.kind);
      expect(kinds.filter((kind) => kind === 'comment' || kind === 'editor')).toEqual(['comment', 'editor']);
    }
    expect(rowsOf(PATCH, 'split', [{ ...comment, anchor: { ...anchor, line: 99 } }], null).some((row) => row.kind === 'comment')).toBe(false);
  });

  it('gives every row a key of its own', () => {
    for (const mode of ['split', 'unified'] as const) {
      const keys = rowsOf(PATCH, mode, [], null).map((row) => row.key);
      expect(new Set(keys).size).toBe(keys.length);
    }
  });

  it('names the line for a comment', () => {
    const row = rowsOf(PATCH, 'unified', [], null)[4];
    expect(row?.kind === 'one' && anchorOf('f', row.cell)).toEqual({ path: 'f', side: 'new', line: 2, quote: 'let x = 22;' });
  });
});

describe('differing', () => {
  it('marks the middle that differs', () => {
    expect(differing('let x = 1;', 'let x = 22;')).toEqual({ before: [8, 9], after: [8, 10] });
  });
  it('marks nothing where two lines have little in common', () => {
    expect(differing('abcdef', 'uvwxyz')).toBeNull();
    expect(differing('same', 'same')).toBeNull();
  });
});
