import { describe, expect, it } from 'vitest';
import { NO_FILTER, chipsOf, isFiltering, processOf, toggled, wireFilter } from './filter';
import type { FilterState } from './filter';

const ALL: FilterState = { severities: ['error'], kinds: ['block', 'egress'], steps: ['agent'], process: 7, host: 'a\u202eb' };

describe('the filter', () => {
  it('is none at first', () => {
    expect(isFiltering(NO_FILTER)).toBe(false);
  });

  it('has a chip for each condition, which takes just that one off', () => {
    const chips = chipsOf(ALL);
    expect(chips.map((chip) => chip.label)).toEqual([
      'Failures', 'Blocks', 'Connections', 'Step agent', 'Process 7', 'Host a⟦U+202E⟧b',
    ]);
    expect(chips.map((chip) => chipsOf(chip.without).length)).toEqual([5, 5, 5, 5, 5, 5]);
    expect(chipsOf(chips[1]?.without ?? NO_FILTER).map((chip) => chip.id)).not.toContain('kind:block');
  });

  it('goes to the engine as it is', () => {
    expect(wireFilter(ALL)).toEqual({ ...ALL });
  });

  it('toggles and reads what is typed', () => {
    expect([toggled(['a'], 'b'), toggled(['a', 'b'], 'a')]).toEqual([['a', 'b'], ['b']]);
    expect(['12', ' 4 ', '0', '-1', 'x', '', '99999999999'].map(processOf)).toEqual([12, 4, null, null, null, null, null]);
  });
});
