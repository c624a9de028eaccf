import { expect, it } from 'vitest';
import { TABS, TAB_WORDS, tabOf } from './tabs';

it('names the tab of a route, and falls back to the feed', () => {
  expect(TABS.map(tabOf)).toEqual([...TABS]);
  expect([undefined, '', 'nowhere', ['feed']].map(tabOf)).toEqual(['feed', 'feed', 'feed', 'feed']);
  expect(Object.keys(TAB_WORDS)).toEqual([...TABS]);
});
