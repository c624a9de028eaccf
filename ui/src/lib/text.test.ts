import { describe, expect, it } from 'vitest';
import { commandLine, oneLine, visibleLines, visibleText } from './text';

describe('visibleText', () => {
  it('shows direction overrides as marks', () => {
    expect(visibleText('photo\u202Egnp.exe')).toBe('photo⟦U+202E⟧gnp.exe');
    expect(visibleText('\u2066a\u2069')).toBe('⟦U+2066⟧a⟦U+2069⟧');
  });
  it('shows control characters, escapes and line ends in names as marks', () => {
    expect(visibleText('a\u001b[31mb')).toBe('a␛[31mb');
    expect(visibleText('a\nb\rc\td')).toBe('a⏎b␍c⇥d');
    expect(visibleText('\u0000\u007f\u0085')).toBe('␀␡⟦U+0085⟧');
  });
  it('shows what has no width as marks', () => {
    expect(visibleText('pay\u200bpal\ufeff\u00ad\u2060')).toBe('pay⟦U+200B⟧pal⟦U+FEFF⟧⟦U+00AD⟧⟦U+2060⟧');
    expect(visibleText('\u3164')).toBe('⟦U+3164⟧');
  });
  it('shows tag characters and lone halves of a pair as marks', () => {
    expect(visibleText('a\u{E0041}')).toBe('a⟦U+E0041⟧');
    expect(visibleText('a\ud800b')).toBe('a⟦U+D800⟧b');
    expect(visibleText('a\udc00')).toBe('a⟦U+DC00⟧');
  });
  it('leaves ordinary text of any script alone', () => {
    for (const text of ['plain', 'Größe', '日本語', 'العربية', '😀', '<b>&amp;</b>']) expect(visibleText(text)).toBe(text);
  });
});

describe('visibleLines', () => {
  it('keeps line ends and tabs and nothing else that is hidden', () => {
    expect(visibleLines('a\r\n\tb\u202ec\rd')).toBe('a\n\tb⟦U+202E⟧c␍d');
  });
});

describe('oneLine', () => {
  it('cuts to the given number of characters', () => {
    expect(oneLine('abcdef', 6)).toBe('abcdef');
    expect(oneLine('abcdef', 4)).toBe('abc…');
    expect(Array.from(oneLine('😀'.repeat(9), 3))).toHaveLength(3);
  });
  it('costs no more than what is shown for a title of megabytes', () => {
    const begun = performance.now();
    expect(oneLine('x\n'.repeat(5_000_000), 50)).toHaveLength(50);
    expect(performance.now() - begun).toBeLessThan(100);
  });
});

describe('commandLine', () => {
  it('quotes what a shell would split', () => {
    expect(commandLine(['git', 'commit', '-m', "it's done", ''])).toBe("git commit -m 'it'\\''s done' ''");
  });
  it('shows hidden characters of arguments', () => {
    expect(commandLine(['a\u202e'])).toBe("'a⟦U+202E⟧'");
  });
});
