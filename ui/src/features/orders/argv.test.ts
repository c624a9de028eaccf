import { describe, expect, it } from 'vitest';
import { joinArgs, splitArgs } from './argv';

describe('splitArgs', () => {
  it.each([
    ['', []],
    ['  a  b\n c ', ['a', 'b', 'c']],
    [`a 'b c' "d e"`, ['a', 'b c', 'd e']],
    [`a'b'"c"d`, ['abcd']],
    [`'' ""`, ['', '']],
    [`"a \\"b\\" \\n"`, ['a "b" \\n']],
    ['a\\ b \\\\', ['a b', '\\']],
    ['a \\\n b', ['a', 'b']],
    ["sh -c 'echo $HOME | wc'", ['sh', '-c', 'echo $HOME | wc']],
    ['agent -p {prompt}', ['agent', '-p', '{prompt}']],
  ])('splits %j', (text, argv) => {
    expect(splitArgs(text)).toEqual({ argv, fault: null, note: null });
  });

  it.each([["a 'b", /single quote/], ['a "b', /double quote/], ['a\\', /backslash/]])('says what is open in %j', (text, why) => {
    expect(splitArgs(text).fault).toMatch(why);
  });

  it.each(['a | b', 'echo $HOME', 'ls *.rs', 'a && b', 'a > b', 'echo `id`', '~/x'])('says that no shell reads %j', (text) => {
    expect(splitArgs(text).note).toMatch(/No shell reads this/);
  });

  it('gives back what was joined', () => {
    for (const argv of [['a', 'b c', "d'e", '', '$x', '{prompt}', 'a\nb', '"', '\\'], ['a']]) {
      expect(splitArgs(joinArgs(argv)).argv).toEqual(argv);
    }
  });
});
