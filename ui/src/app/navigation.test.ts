import { describe, expect, it, vi } from 'vitest';
import type { Router } from 'vue-router';
import type { Navigation } from '@/ipc/app';
import { go, inboxSentence, linkedOrder, quitAsked } from './navigation';

describe('where the desktop sends the window', () => {
  const push = vi.fn();
  const router = { push } as unknown as Router;

  it('opens cards, runs and the inbox, and decides nothing', () => {
    go(router, { kind: 'block', id: 'r1-b1' });
    go(router, { kind: 'run', id: 'r1' });
    go(router, { kind: 'inbox', sentence: 'This link is not known here.' });
    expect(push.mock.calls).toEqual([
      [{ name: 'inbox', params: { block: 'r1-b1' } }],
      [{ name: 'run', params: { id: 'r1' } }],
      [{ name: 'inbox' }],
    ]);
    expect(inboxSentence.value).toBe('This link is not known here.');
  });
  it('only fills in the form of an order, and asks before it quits', () => {
    const draft = { title: 'T', prompt: null, repo: null };
    go(router, { kind: 'order', draft });
    expect(linkedOrder.value).toEqual(draft);
    go(router, { kind: 'quit_asked', running: 3 });
    expect(quitAsked.value).toBe(3);
  });
  it('stays where it is for a kind that it does not know', () => {
    push.mockClear();
    vi.spyOn(console, 'warn').mockReturnValue();
    go(router, { kind: 'moon' } as unknown as Navigation);
    expect(push).not.toHaveBeenCalled();
  });
});
