import { describe, expect, it } from 'vitest';
import { textDiff } from './text-diff';

const marks = (before: string, after: string) => textDiff(before, after).map(({ mark, text }) => `${mark}${text}`);

describe('the difference of two texts', () => {
  it('is nothing when they are equal', () => {
    expect(textDiff('a\nb\n', 'a\nb\n')).toEqual([]);
  });

  it('shows what was appended, with the lines before it', () => {
    expect(marks('1\n2\n3\n4\n', '1\n2\n3\n4\n\n[[egress]]\nport = 443\n')).toEqual([
      ' 2',
      ' 3',
      ' 4',
      '+',
      '+[[egress]]',
      '+port = 443',
    ]);
  });

  it('shows a new file as added', () => {
    expect(marks('', 'a\nb\n')).toEqual(['+a', '+b']);
  });

  it('shows a change in the middle, and one of equal lines', () => {
    expect(marks('a\nb\nc\n', 'a\nx\nc\n')).toEqual([' a', '-b', '+x', ' c']);
    expect(marks('a\na\n', 'a\na\na\n')).toEqual([' a', ' a', '+a']);
  });
});
