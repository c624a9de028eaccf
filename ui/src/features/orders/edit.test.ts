import { describe, expect, it } from 'vitest';
import type { OrderView } from '@/ipc/bindings';
import { changesOf, editFaults, editOf, localTime } from './edit';

const order = {
  id: 'o1', title: 'Fix', argv: ['agent', '-p', '{prompt}'], prompt: 'it', base: null, gate: 'review', scope: { patterns: ['src/**'], enforcement: 'mandatory' },
  depends_on: ['a'], hints: { priority: false, kind: 'fix', retries: 1, not_before: '2027-01-01T08:00:00Z' }, state: 'queued',
} as unknown as OrderView;

describe('changesOf', () => {
  it('sends nothing where nothing was changed', () => {
    expect(changesOf(order, editOf(order))).toBeNull();
  });
  it('sends what was changed, and hints whole', () => {
    expect(changesOf(order, { ...editOf(order), title: 'New', priority: true })).toEqual({
      order: 'o1', title: 'New', hints: { priority: true, kind: 'fix', retries: 1, not_before: '2027-01-01T08:00:00Z' },
    });
  });
  it('keeps how a claim holds while its paths change', () => {
    expect(changesOf(order, { ...editOf(order), scope: ['docs/', ''] })?.scope).toEqual({ patterns: ['docs/'], enforcement: 'mandatory' });
  });
  it('takes a time away', () => {
    expect(changesOf(order, { ...editOf(order), notBefore: '' })?.hints).toEqual({ priority: false, kind: 'fix', retries: 1 });
  });
});

describe('an edit', () => {
  it('has its faults beside the fields', () => {
    expect(editFaults({ ...editOf(order), command: "a 'b", retries: '99' })).toMatchObject({ command: expect.stringMatching(/quote/), retries: expect.stringMatching(/0 to 20/) });
    expect(editFaults(editOf(order))).toEqual({});
  });
  it('shows times in this zone', () => {
    expect(localTime(null)).toBe('');
    expect(new Date(localTime('2027-01-01T08:00:00Z')).toISOString()).toBe('2027-01-01T08:00:00.000Z');
  });
});
