import { describe, expect, it } from 'vitest';
import { expiresAt, expiriesOf, expiryWords } from './expiry';

const NOW = Date.parse('2026-01-31T23:30:00Z');

describe('the expiry of an amendment', () => {
  it('fits its scope, the natural end first', () => {
    expect(expiriesOf('once')).toEqual(['end']);
    expect(expiriesOf('run')).toEqual(['end', 'hour', 'day']);
    expect(expiriesOf('order')).toEqual(['end', 'hour', 'day', 'month']);
    expect(expiriesOf('project')).toEqual(['end', 'hour', 'day', 'month']);
  });

  it('is named for what ends it', () => {
    expect(expiryWords('end', 'run')).toBe('until the run ends');
    expect(expiryWords('end', 'project')).toBe('never expires');
    expect(expiryWords('hour', 'run')).toBe('for 1 hour, at most until the run ends');
    expect(expiryWords('month', 'order')).toBe('for 30 days');
  });

  it('is counted from the click, in UTC', () => {
    expect(expiresAt('end', NOW)).toBeNull();
    expect(expiresAt('hour', NOW)).toBe('2026-02-01T00:30:00.000Z');
    expect(expiresAt('day', NOW)).toBe('2026-02-01T23:30:00.000Z');
    expect(expiresAt('month', NOW)).toBe('2026-03-02T23:30:00.000Z');
  });
});
