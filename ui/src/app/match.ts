import uFuzzy from '@leeoniya/ufuzzy';
import type { Action } from './palette';

const finder = new uFuzzy({ intraMode: 1, intraIns: 1, intraSub: 1, intraTrn: 1, intraDel: 1 });

/** Actions that fit what was typed, the best first; all of them when nothing was typed, those that can be done first. */
export function matchActions(actions: readonly Action[], typed: string): Action[] {
  const needle = typed.trim();
  if (needle === '') return [...actions].sort((left, right) => Number(left.disabled !== undefined) - Number(right.disabled !== undefined));
  const hay = actions.map((action) => `${action.title} ${action.group ?? ''}`);
  const [ids, , order] = finder.search(hay, needle, 1);
  const found = order && ids ? order.map((at) => ids[at]) : (ids ?? []);
  return found.flatMap((at) => {
    const action = at === undefined || at === null ? undefined : actions[at];
    return action ? [action] : [];
  });
}
