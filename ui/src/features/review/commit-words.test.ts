import { describe, expect, it } from 'vitest';
import type { CommitView } from '@/ipc/bindings';
import { figuresOf, subjectOf } from './commit-words';

const commit = (changes: Partial<CommitView>): CommitView => ({
  sha: 'a'.repeat(40), subject: 'Fix it', authored_at: '2026-01-02T10:00:00Z', parents: 1, files: 1, added: 3, removed: 0, ...changes,
});

describe('a commit', () => {
  it('is one short visible line, whatever a run wrote', () => {
    expect(subjectOf(commit({ subject: 'x\u001b[2J\u202e\ny' }))).toBe('x␛[2J⟦U+202E⟧⏎y');
    expect(Array.from(subjectOf(commit({ subject: 'x'.repeat(1_000_000) })))).toHaveLength(200);
    expect([subjectOf(commit({ subject: '' })), subjectOf(commit({ subject: '  ' }))]).toEqual(['(no message)', '(no message)']);
  });
  it('says what it changes, and where that was not counted', () => {
    expect(figuresOf(commit({ files: 2, added: 1200 }))).toBe('2 files, +1,200 −0');
    expect(figuresOf(commit({ added: null, removed: null }))).toBe('1 file, lines not counted');
  });
});
