import { describe, expect, it } from 'vitest';
import { CHANGED, appear, canDecide, canUndo, due, hasButtons, next, undoSeconds } from './card';
import type { CardState } from './card';
import { amendedView, sampleDecided, sampleView } from './sample.fixture';

const armed = (): CardState => next(appear(sampleView(), 0), { type: 'tick' }, 500);
const decided = (): CardState => {
  const asked = next(armed(), { type: 'asked', asked: 'amend' }, 1000);
  return next(asked, { type: 'answered', decided: sampleDecided() }, 1200);
};

describe('a card', () => {
  it('takes no decision in its first half second', () => {
    const shown = appear(sampleView(), 1000);
    expect(shown.phase).toBe('shown');
    expect(canDecide(shown, 1499)).toBe(false);
    expect(next(shown, { type: 'asked', asked: 'amend' }, 1499)).toBe(shown);
    expect(next(shown, { type: 'tick' }, 1499).phase).toBe('shown');
    expect(due(shown, 1000)).toBe(1500);
    expect(next(shown, { type: 'tick' }, 1500).phase).toBe('armed');
    expect(next(shown, { type: 'asked', asked: 'amend' }, 1500).phase).toBe('deciding');
  });

  it('goes from shown to undone and takes one decision only', () => {
    const state = decided();
    expect(state.phase).toBe('decided');
    expect(hasButtons(state)).toBe(false);
    expect(next(state, { type: 'asked', asked: 'deny' }, 2000)).toBe(state);
    const undoing = next(state, { type: 'undo' }, 3000);
    expect(undoing.phase).toBe('undoing');
    const undone = next(undoing, { type: 'answered', decided: sampleDecided({ cut: 1 }) }, 3100);
    expect(undone.phase).toBe('undone');
  });

  it('can be undone for ten seconds from the click, not from the answer', () => {
    const state = decided();
    expect(undoSeconds(state, 1200)).toBe(10);
    expect(undoSeconds(state, 2001)).toBe(9);
    expect(due(state, 2001)).toBe(3000);
    expect(canUndo(state, 10_999)).toBe(true);
    expect(canUndo(state, 11_000)).toBe(false);
    expect(next(state, { type: 'undo' }, 11_000)).toBe(state);
    expect(due(state, 11_000)).toBeNull();
  });

  it('settles anew when figures are drawn, and draws them at most every two seconds', () => {
    const more = sampleView({ waiting: 3, seen: 3, expect: 'h3-cc' });
    const waits = next(armed(), { type: 'seen', view: more }, 600);
    expect(waits.view.expect).toBe('h2-aa');
    expect(canDecide(waits, 600)).toBe(true);
    expect(due(waits, 600)).toBe(2000);
    const drawn = next(waits, { type: 'tick' }, 2000);
    expect(drawn.view.expect).toBe('h3-cc');
    expect(drawn.note).toBeNull();
    expect(canDecide(drawn, 2499)).toBe(false);
    expect(canDecide(drawn, 2500)).toBe(true);
  });

  it('a cage that keeps knocking cannot keep it from being armed', () => {
    let state: CardState = appear(sampleView(), 0);
    let able = 0;
    for (let now = 0; now < 20_000; now += 100) {
      const view = sampleView({ seen: now, expect: `h${String(now)}-cc` });
      state = next(next(state, { type: 'seen', view }, now), { type: 'tick' }, now);
      if (canDecide(state, now)) able += 1;
    }
    expect(able).toBeGreaterThan(140);
  });

  it('shows another question at once, says so, and settles anew', () => {
    const other = sampleView({ revision: 2, expect: 'h2-dd' });
    const state = next(armed(), { type: 'seen', view: other }, 700);
    expect(state).toMatchObject({ phase: 'shown', note: CHANGED, question: 1 });
    expect(canDecide(state, 1199)).toBe(false);
  });

  it('a late surface says who decided', () => {
    const seen = next(armed(), { type: 'seen', view: amendedView() }, 900);
    expect(seen).toMatchObject({ phase: 'late', wasOpen: true });
    const asked = next(armed(), { type: 'asked', asked: 'amend' }, 900);
    const failure = { code: 'already_decided', message: 'r7k2mqdx-b1 was already amended by you at 14:02' } as const;
    const late = next(asked, { type: 'refused', failure }, 950);
    expect(late.phase).toBe('late');
    expect(next(late, { type: 'seen', view: amendedView() }, 960).view.state).toBe('amended');
  });

  it('a stale answer draws the card anew and does nothing else', () => {
    const asked = next(armed(), { type: 'asked', asked: 'amend' }, 900);
    const failure = { code: 'stale', message: 'r7k2mqdx-b1 is not as it was shown any more' } as const;
    const state = next(asked, { type: 'refused', failure }, 950);
    expect(state).toMatchObject({ phase: 'shown', note: CHANGED });
    expect(canDecide(state, 1449)).toBe(false);
  });

  it('keeps a failure on the card, with what became of the block', () => {
    const asked = next(armed(), { type: 'asked', asked: 'amend' }, 900);
    const failure = { code: 'environment', message: 'the supervisor did not confirm it' } as const;
    const failed = next(asked, { type: 'refused', failure }, 950);
    expect(failed.phase).toBe('failed');
    expect(hasButtons(failed)).toBe(true);
    const after = next(failed, { type: 'seen', view: amendedView() }, 960);
    expect(after.phase).toBe('failed');
    expect(hasButtons(after)).toBe(false);
  });

  it('an old look does not reopen what was decided, a later one does', () => {
    const old = next(decided(), { type: 'seen', view: sampleView({ seen: 3, expect: 'h3-cc' }) }, 1300);
    expect(old.phase).toBe('decided');
    const confirmed = next(old, { type: 'seen', view: amendedView() }, 1400);
    expect(confirmed.phase).toBe('decided');
    const gone = next(confirmed, { type: 'seen', view: sampleView({ state: 'gone', waiting: 0 }) }, 1500);
    expect(gone).toMatchObject({ phase: 'shown', note: 'The decision about it was taken back.' });
  });

  it('time alone decides nothing: expired is not denied', () => {
    const expired = next(armed(), { type: 'seen', view: sampleView({ state: 'expired', waiting: 0 }) }, 900);
    expect(expired.phase).toBe('shown');
    expect(hasButtons(expired)).toBe(true);
    expect(next(expired, { type: 'tick' }, 1_000_000).phase).toBe('armed');
  });

  it('is closed from the start when it was decided before it was seen', () => {
    expect(appear(amendedView(), 0)).toMatchObject({ phase: 'late', wasOpen: false });
    expect(due(appear(amendedView(), 0), 0)).toBeNull();
  });
});
