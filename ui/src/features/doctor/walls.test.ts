import { describe, expect, it } from 'vitest';
import { tierTone, wallName, wallStands } from './walls';

const wall = { wall: 'cgroup', holds: true, required: false, detail: '', remedy: null } as const;

describe('walls', () => {
  it('never show a missing wall as good', () => {
    expect(wallStands(wall)).toEqual({ word: 'Holds', tone: 'good' });
    expect(wallStands({ ...wall, holds: false })).toEqual({ word: 'Missing', tone: 'warn' });
    expect(wallStands({ ...wall, holds: false, required: true })).toEqual({ word: 'Does not hold', tone: 'bad' });
    const tones = ['full', 'reduced', 'no_namespaces', 'none', 'novel'].map(tierTone);
    expect(tones).toEqual(['good', 'warn', 'warn', 'bad', 'bad']);
  });
  it('shows one that this window does not know by its tag', () => {
    expect(wallName('moat').name).toBe('moat');
    expect(wallName('network').name).toBe('Network held');
  });
});
