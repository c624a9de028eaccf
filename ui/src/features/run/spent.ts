/** What an agent says that it has used, in words. Pure. */
import type { Spent } from '@/ipc/bindings';
import { costWords } from '@/features/blocks/bounds';
import { count } from '@/lib/count';

/** "$0.02, 1,200 tokens, 3 turns"; what was never told is said to be not measured. */
export function spentWords(spent: Spent | null): string | null {
  if (spent === null) return null;
  const cost = spent.cost_microusd ?? null;
  const tokens = spent.tokens ?? null;
  return [
    cost === null ? 'cost not measured' : costWords(cost),
    tokens === null ? 'tokens not measured' : count(tokens, 'token'),
    count(spent.turns ?? 0, 'turn'),
  ].join(', ');
}
