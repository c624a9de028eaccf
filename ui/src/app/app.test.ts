import { effectScope, nextTick } from 'vue';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { dialogClosed, dialogOpened } from '@/ui/dialogs';
import { advance, chordOf, isBare } from './chords';
import { connectionWord } from './connection';
import { activeKeys, handleKey, takesText, useKeys } from './keys';
import { matchActions } from './match';
import { allActions, useActions } from './palette';
import type { Action } from './palette';
import { setTheme, shownTheme, themeFor } from './theme';

const press = (key: string, some: Partial<KeyboardEventInit> = {}): KeyboardEvent => new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true, ...some });

describe('chords', () => {
  const plain = { ctrlKey: false, metaKey: false, altKey: false, shiftKey: false };
  it('names a key with what is held', () => {
    expect(chordOf({ ...plain, key: 'j' })).toBe('j');
    expect(chordOf({ ...plain, key: '?', shiftKey: true })).toBe('?');
    expect(chordOf({ ...plain, key: 'K', ctrlKey: true })).toBe('mod+k');
    expect(chordOf({ ...plain, key: 'k', metaKey: true })).toBe('mod+k');
    expect(chordOf({ ...plain, key: 'Enter', shiftKey: true })).toBe('shift+Enter');
    expect(chordOf({ ...plain, key: ' ' })).toBe('Space');
  });
  it('does not take a capital for the small letter: Shift and A is no a', () => {
    expect(chordOf({ ...plain, key: 'A', shiftKey: true })).toBe('A');
  });
  it('tells bare keys from the rest', () => {
    expect([isBare('a'), isBare('mod+k'), isBare('alt+a')]).toEqual([true, false, false]);
  });
  it('follows sequences and starts anew after a miss', () => {
    const known = ['g b', 'j', 'mod+k'];
    expect(advance('', 'g', known)).toEqual({ wait: 'g' });
    expect(advance('g', 'b', known)).toEqual({ hit: 'g b' });
    expect(advance('g', 'j', known)).toEqual({ hit: 'j' });
    expect(advance('g', 'x', known)).toEqual({ miss: true });
  });
});

describe('keys', () => {
  const scope = effectScope();
  afterEach(() => {
    document.body.replaceChildren();
  });

  function send(event: KeyboardEvent, target: EventTarget = document.body): KeyboardEvent {
    const hear = (heard: Event): void => handleKey(heard as KeyboardEvent);
    window.addEventListener('keydown', hear);
    target.dispatchEvent(event);
    window.removeEventListener('keydown', hear);
    return event;
  }

  it('runs what a key means in the newest scope, and no longer once it has gone', () => {
    const old = vi.fn();
    const fresh = vi.fn();
    const inner = effectScope();
    scope.run(() => useKeys('Everywhere', { j: { does: 'old', run: old }, 'g b': { does: 'go', run: old } }));
    inner.run(() => useKeys('Board', { j: { does: 'new', run: fresh } }));
    expect(send(press('j')).defaultPrevented).toBe(true);
    expect([old.mock.calls.length, fresh.mock.calls.length]).toEqual([0, 1]);
    expect(activeKeys.value.map(({ scope, keys }) => [scope, keys.map(({ keys }) => keys)])).toEqual([['Board', ['j']], ['Everywhere', ['g b']]]);
    inner.stop();
    send(press('j'));
    expect(old).toHaveBeenCalledOnce();
  });

  it('leaves bare keys alone in fields and under a dialog, and keeps the others in fields', () => {
    const run = vi.fn();
    scope.run(() => useKeys('More', { x: { does: 'pick', run }, 'mod+k': { does: 'palette', run } }));
    const field = document.createElement('input');
    document.body.append(field);
    expect(takesText(field)).toBe(true);
    send(press('x'), field);
    dialogOpened();
    send(press('x'));
    dialogClosed();
    expect(run).not.toHaveBeenCalled();
    send(press('k', { ctrlKey: true }), field);
    send(press('x'));
    expect(run).toHaveBeenCalledTimes(2);
  });

  it('does not take Enter from a button', () => {
    const run = vi.fn();
    scope.run(() => useKeys('Rows', { Enter: { does: 'open', run } }));
    const button = document.createElement('button');
    document.body.append(button);
    send(press('Enter'), button);
    expect(run).not.toHaveBeenCalled();
    send(press('Enter'));
    expect(run).toHaveBeenCalledOnce();
    scope.stop();
  });
});

describe('palette', () => {
  const action = (id: string, title: string, some: Partial<Action> = {}): Action => ({ id, title, run: () => undefined, ...some });
  it('finds actions by parts of words and with a slip', () => {
    const actions = [action('1', 'Go to Board', { group: 'Go' }), action('2', 'Pause queue', { group: 'Queue' }), action('3', 'Use the light theme')];
    expect(matchActions(actions, 'pau').map(({ id }) => id)).toEqual(['2']);
    expect(matchActions(actions, 'theme light').map(({ id }) => id)).toEqual(['3']);
    expect(matchActions(actions, 'borad').map(({ id }) => id)).toEqual(['1']);
    expect(matchActions(actions, 'zzz')).toEqual([]);
    expect(matchActions(actions, '(((')).toBeInstanceOf(Array);
  });
  it('lists everything when nothing is typed, what cannot be done last', () => {
    const actions = [action('1', 'a', { disabled: 'no' }), action('2', 'b')];
    expect(matchActions(actions, ' ').map(({ id }) => id)).toEqual(['2', '1']);
  });
  it('holds what is on the screen, an id once', async () => {
    const scope = effectScope();
    scope.run(() => useActions(() => [action('a', 'outer'), action('b', 'outer')]));
    const inner = effectScope();
    inner.run(() => useActions(() => [action('a', 'inner')]));
    expect(allActions.value.map(({ title }) => title)).toEqual(['inner', 'outer']);
    inner.stop();
    await nextTick();
    expect(allActions.value.map(({ title }) => title)).toEqual(['outer', 'outer']);
    scope.stop();
  });
});

describe('theme', () => {
  it('follows the desktop only when asked to', () => {
    expect([themeFor('system', true), themeFor('system', false), themeFor('dark', true), themeFor('light', false)]).toEqual(['light', 'dark', 'dark', 'light']);
  });
  it('is shown at once and kept for the next start', () => {
    setTheme('light');
    expect(document.documentElement.dataset['theme']).toBe('light');
    expect(localStorage.getItem('sdf.theme')).toBe('light');
    setTheme('dark');
    expect(shownTheme.value).toBe('dark');
  });
});

describe('frame', () => {
  it('never calls a dead connection live', () => {
    expect(connectionWord('live').tone).toBe('good');
    for (const connection of ['loading', 'reconnecting', { failed: { code: 'busy', message: 'x' } }] as const) expect(connectionWord(connection).tone).not.toBe('good');
  });
});
