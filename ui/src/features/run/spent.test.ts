import { describe, expect, it } from 'vitest';
import { costWords, figureWords } from '@/features/blocks/bounds';
import { boundFault, boundValue } from '@/lib/quantity';
import { spentWords } from './spent';

describe('what an agent has used', () => {
  it('says what was never told, and never nought for it', () => {
    expect(spentWords(null)).toBeNull();
    expect(spentWords({ tokens: 1200, cost_microusd: 20_000, turns: 3 })).toBe('$0.02, 1,200 tokens, 3 turns');
    expect(spentWords({ turns: 1 })).toBe('cost not measured, tokens not measured, 1 turn');
  });

  it('has bounds that are written as the engine reads them', () => {
    expect([boundValue('tokens', '1.5M'), boundValue('tokens', '200k'), boundValue('tokens', '900')]).toEqual([1_500_000, 200_000, 900]);
    expect([boundValue('cost', '$0.25'), boundValue('cost', '5'), boundValue('turns', '40')]).toEqual([250_000, 5_000_000, 40]);
    for (const bad of ['1.5', 'k', '1e6', '-1']) expect(boundFault('tokens', bad)).not.toBeNull();
    expect(boundFault('cost', '5 EUR')).not.toBeNull();
    expect([costWords(12_500), figureWords('tokens', 1), figureWords('turns', 4)]).toEqual(['$0.0125', '1 token', '4 turns']);
  });
});
