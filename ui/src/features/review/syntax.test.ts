import { describe, expect, it } from 'vitest';
import { grammarOf, linesOf } from './grammars';
import { parsePatch } from './patch';
import { colour, isSmall, languageOf, pieces } from './syntax';

describe('colour', () => {
  it('names what the words of a line are', async () => {
    const { hunks } = parsePatch('@@ -1 +1,2 @@\n-let a = 1;\n+let a = "<img src=x onerror=alert(1)>";\n+// end\n');
    const colours = await colour(hunks, 'src/a.rs', () => false);
    const [removed, added, comment] = hunks[0]?.lines ?? [];
    expect(removed && colours.get(removed)?.[0]).toEqual({ text: 'let', kind: 'keyword' });
    expect(added && colours.get(added)?.map((token) => token.text).join('')).toBe(added?.text);
    expect(comment && colours.get(comment)).toEqual([{ text: '// end', kind: 'comment' }]);
  });

  it('leaves long lines and unknown languages plain', async () => {
    const { hunks } = parsePatch(`@@ -0,0 +1 @@\n+${'x'.repeat(1500)}\n`);
    const line = hunks[0]?.lines[0];
    expect(line && (await colour(hunks, 'a.js', () => false)).get(line)).toBeUndefined();
    expect(line && (await colour(hunks, 'a', () => false)).get(line)).toBeUndefined();
  });
});

describe('grammars', () => {
  it('are there for what is usual, and leave the text as it is', async () => {
    const text = '<script>\nlet a = `b`; // c\n</script>\n# d\n';
    for (const ending of ['rs', 'ts', 'tsx', 'py', 'vue', 'md', 'toml', 'yml', 'sh', 'dockerfile', 'go', 'json', 'sql', 'c++']) {
      const lines = (await grammarOf(ending))?.(text);
      expect(lines?.map((line) => line.map((token) => token.text).join('')), ending).toEqual(text.split('\n'));
    }
    expect(await grammarOf('constructor')).toBeNull();
  });

  it('mark scripts inside of pages, and strings over several lines', async () => {
    const html = (await grammarOf('html'))?.('<script>\nlet a = 1;\n</script>');
    expect(html?.[1]?.[0]).toEqual({ text: 'let', kind: 'keyword' });
    const python = (await grammarOf('py'))?.('a = """one\ntwo"""');
    expect(python?.map((line) => line.at(-1))).toEqual([{ text: '"""one', kind: 'string' }, { text: 'two"""', kind: 'string' }]);
  });

  it('make nothing of marks that are none', () => {
    const inner = { type: 'element', properties: { className: [1] }, children: [{ type: 'text', value: 'a\n\nb' }] };
    expect(linesOf({ type: 'root', children: [inner] })).toEqual([[{ text: 'a', kind: null }], [], [{ text: 'b', kind: null }]]);
  });
});

describe('limits', () => {
  it('count characters, lines and the longest line', () => {
    expect(isSmall([{ text: 'x'.repeat(400) }])).toBe(true);
    expect(isSmall([{ text: 'x'.repeat(401) }])).toBe(false);
    expect(isSmall(Array.from({ length: 1501 }, () => ({ text: '' })))).toBe(false);
    expect(isSmall(Array.from({ length: 300 }, () => ({ text: 'x'.repeat(300) })))).toBe(false);
  });
  it('take a language from the name only', () => {
    expect(['a/b.rs', 'Dockerfile', '.gitignore', 'x.', 'a.b/c', 'x.<b>'].map(languageOf)).toEqual(['rs', 'dockerfile', 'gitignore', null, null, null]);
  });
});

describe('pieces', () => {
  it('cuts tokens where the difference begins and ends', () => {
    const found = [{ text: 'let ', kind: 'keyword' }, { text: 'abc', kind: null }];
    expect(pieces('let abc', found, [2, 5])).toEqual([
      { text: 'le', kind: 'keyword', marked: false },
      { text: 't ', kind: 'keyword', marked: true },
      { text: 'a', kind: null, marked: true },
      { text: 'bc', kind: null, marked: false },
    ]);
    expect(pieces('abc', undefined, null)).toEqual([{ text: 'abc', kind: null, marked: false }]);
  });
});
