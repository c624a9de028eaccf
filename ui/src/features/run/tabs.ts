/** Tabs of a run, in the order of their keys `1` to `6`. */
export const TABS = ['feed', 'blocks', 'changes', 'policy', 'provisioning', 'details'] as const;
export type Tab = (typeof TABS)[number];

export const TAB_WORDS: Readonly<Record<Tab, string>> = {
  feed: 'Feed',
  blocks: 'Blocks',
  changes: 'Changes',
  policy: 'Policy',
  provisioning: 'Provisioning',
  details: 'Details',
};

/** The tab that a route names; the feed where it names none or an unknown one. */
export function tabOf(named: unknown): Tab {
  return TABS.find((tab) => tab === named) ?? 'feed';
}
