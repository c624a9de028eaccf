// For how long an amendment counts: which lengths fit its scope, and the point in time they end at.

import type { At, Candidate, Scope } from '@/ipc/bindings';
import { raiseOf } from './bounds';

/** A length that an operator can choose. `end` is the natural end of the scope: no expiry of its own. */
export type Expiry = 'end' | 'hour' | 'day' | 'month';

const HOUR_MS = 3_600_000;

/** The lengths that fit a scope, the usual one first. */
export function expiriesOf(scope: Scope): readonly Expiry[] {
  switch (scope) {
    case 'once':
      return ['end'];
    case 'run':
      return ['end', 'hour', 'day'];
    case 'order':
    case 'project':
      return ['end', 'hour', 'day', 'month'];
    default:
      return scope satisfies never;
  }
}

/** The lengths that fit a rule. A raised bound has no end of its own; it is revoked. */
export function expiriesFor(candidate: Candidate): readonly Expiry[] {
  return raiseOf(candidate.rule) === null ? expiriesOf(candidate.scope) : ['end'];
}

/** A length in words, which for the natural end depend on the scope. */
export function expiryWords(expiry: Expiry, scope: Scope): string {
  switch (expiry) {
    case 'end':
      if (scope === 'once') return 'for what waits now';
      return scope === 'run' ? 'until the run ends' : 'never expires';
    case 'hour':
      return scope === 'run' ? 'for 1 hour, at most until the run ends' : 'for 1 hour';
    case 'day':
      return scope === 'run' ? 'for 1 day, at most until the run ends' : 'for 1 day';
    case 'month':
      return 'for 30 days';
    default:
      return expiry satisfies never;
  }
}

/** When it ends, counted from `now` in milliseconds since 1970; nothing for the natural end. */
export function expiresAt(expiry: Expiry, now: number): At | null {
  switch (expiry) {
    case 'end':
      return null;
    case 'hour':
      return new Date(now + HOUR_MS).toISOString();
    case 'day':
      return new Date(now + 24 * HOUR_MS).toISOString();
    case 'month':
      return new Date(now + 30 * 24 * HOUR_MS).toISOString();
    default:
      return expiry satisfies never;
  }
}
