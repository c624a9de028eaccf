import { describe, expect, it } from 'vitest';
import { LONGEST_LINE, parsePatch, splitPatch } from './patch';

const PATCH = `diff --git a/src/a.rs b/src/a.rs
old mode 100644
new mode 100755
--- a/src/a.rs
+++ b/src/a.rs
@@ -10,3 +10,4 @@ fn main() {
 fn x() {
-    let a = 1;
+    let a = 22;
+--- b
 }
@@ -100,2 +101,1 @@
 a
-b
\\ No newline at end of file
`;

describe('parsePatch', () => {
  it('numbers the lines of both sides', () => {
    const { hunks, lines, notes } = parsePatch(PATCH);
    expect(lines).toBe(7);
    expect(notes).toEqual(['It can be executed now']);
    expect(hunks.map((hunk) => hunk.lines.map((line) => [line.kind, line.old, line.new]))).toEqual([
      [['context', 10, 10], ['removed', 11, null], ['added', null, 11], ['added', null, 12], ['context', 12, 13]],
      [['context', 100, 101], ['removed', 101, null]],
    ]);
    expect(hunks[1]?.lines[1]?.open).toBe(true);
  });

  it('takes a line that looks like a header for what it is', () => {
    expect(parsePatch(PATCH).hunks[0]?.lines[3]?.text).toBe('--- b');
  });

  it('shows hidden characters as marks and keeps tabs', () => {
    const { hunks } = parsePatch('@@ -0,0 +1,2 @@\n+a\u202eb\u200b\n+\tx\u001b[2J\r\n');
    expect(hunks[0]?.lines.map((line) => line.text)).toEqual(['a⟦U+202E⟧b⟦U+200B⟧', '\tx␛[2J␍']);
  });

  it('cuts long lines and says by how much', () => {
    const line = parsePatch(`@@ -0,0 +1 @@\n+${'x'.repeat(LONGEST_LINE + 5)}\n`).hunks[0]?.lines[0];
    expect([line?.text.length, line?.cut]).toEqual([LONGEST_LINE, 5]);
  });

  it('gives no hunks for what is no diff', () => {
    expect(parsePatch('hello\nworld').hunks).toEqual([]);
    expect(parsePatch('').lines).toBe(0);
  });
});

describe('splitPatch', () => {
  it('cuts between files only', () => {
    const two = `${PATCH}diff --git a/b b/b\n@@ -1 +1 @@\n-x\n+diff --git a/c b/c\n`;
    expect(splitPatch(two).map((part) => part.split('\n')[0])).toEqual([
      'diff --git a/src/a.rs b/src/a.rs',
      'diff --git a/b b/b',
    ]);
    expect(splitPatch('')).toEqual([]);
    expect(splitPatch('@@ -1 +1 @@\n-x\n+y\n')).toHaveLength(1);
  });
});
