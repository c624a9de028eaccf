import { describe, expect, it } from 'vitest';
import { stretchesOf, withoutEscapes } from './ansi';

describe('terminal text', () => {
  it('keeps readable colours and decorations', () => {
    expect(stretchesOf('a \u001b[31mred\u001b[0m \u001b[1;92mbold\u001b[0m')).toEqual([
      { text: 'a ', style: '' },
      { text: 'red', style: 'ansi-red' },
      { text: ' ', style: '' },
      { text: 'bold', style: 'ansi-green ansi-bold' },
    ]);
  });

  it('cannot hide text: no ground, no concealment, no colour of its own', () => {
    for (const code of ['8', '7', '30;40', '38;2;0;0;0;48;2;0;0;0', '38;5;232']) {
      const [only] = stretchesOf(`\u001b[${code}msecret`);
      expect(only?.text).toBe('secret');
      expect(only?.style ?? '').toMatch(/^(|ansi-black)$/);
    }
  });

  it('leaves out movement, titles and links, and marks what remains', () => {
    const text = '\u001b[2J\u001b]0;title\u0007\u001b]8;;http://x\u001b\\link\u001b]8;;\u001b\\\u001bc\u0007!';
    expect(stretchesOf(text)).toEqual([{ text: 'link␇!', style: '' }]);
    expect(withoutEscapes('a\u001b[31mb\u001b[0m\nc')).toBe('ab\nc');
  });

  it('follows a bounded number of changes', () => {
    const many = Array.from({ length: 500 }, (_, n) => `\u001b[3${n % 8}m${n % 10}`).join('');
    const stretches = stretchesOf(many);
    expect(stretches.length).toBeLessThanOrEqual(25);
    expect(stretches.map((one) => one.text).join('')).toHaveLength(500);
  });
});
