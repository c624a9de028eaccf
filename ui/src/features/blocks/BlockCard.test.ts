import { flushPromises } from '@vue/test-utils';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { nextTick } from 'vue';
import { call } from './calls.fixture';
import { begin, body, end, no, ok, pass, press, show } from './card-page.fixture';
import { useCards } from './cards';
import { EGRESS, sampleAmendment, sampleDecided, sampleView } from './sample.fixture';

vi.mock('@/ipc/call', () => import('./calls.fixture'));
beforeEach(begin);
afterEach(end);

describe('the card of a block', () => {
  it('shows the facts, and none of what a cage wrote as anything but marks', async () => {
    const shown = show(
      sampleView({
        title: `${'T'.repeat(10_000)}<img src=x onerror=alert(1)>`,
        subject: { ...EGRESS, host: { name: 'evil\u202emoc.example' } },
        holders: [{ pid: 41, argv: ['sh', '-c', 'x\nAmend\u001b[2J'] }],
        why: 'No rule allows it\u200b',
      }),
    );
    await nextTick();
    const text = shown.wrapper.text();
    expect(text).toContain('U+202E');
    expect(text).toContain('(pid 41)');
    expect(text).toContain('Network wall. No rule allows it');
    expect(text).toContain('2 connections');
    expect(text).toContain('Let this run connect to npm.registry.example:443 until it ends');
    expect(text).not.toMatch(/[\u202e\u200b\u001b]/);
    expect(text).not.toContain('T'.repeat(200));
    expect(document.querySelector('img')).toBeNull();
  });

  it('names the step of the event that opened it', async () => {
    const event = { v: 1, run: 'r9step00', seq: 4, at: '2026-01-02T10:00:00Z', step: 'agent', kind: 'block' };
    const block = sampleView({ id: 'r9step00-b1' });
    call.runEvents.mockResolvedValue(ok({ events: [{ ...event, block }], cursor: 4, ended: false }) as never);
    const shown = show(block);
    await flushPromises();
    expect(shown.wrapper.text()).toContain(', step agent');
  });

  it('amends by the narrowest rule, after half a second and once', async () => {
    show(sampleView());
    await pass(400);
    await press('amend');
    expect(call.blockAmend).not.toHaveBeenCalled();
    await pass(100);
    body('amend')?.click();
    body('amend')?.click();
    await flushPromises();
    expect(call.blockAmend).toHaveBeenCalledTimes(1);
    expect(call.blockAmend).toHaveBeenCalledWith({
      block: 'r7k2mqdx-b1',
      expect: 'h2-aa',
      scope: 'run',
      rule: 2,
      confirmed: false,
      expires: null,
      surface: 'window',
    });
    expect(body('decision')?.textContent).toContain('2 actions let go');
    expect(body('amendment-link')?.getAttribute('href')).toContain('amendment=r7k2mqdx-a1');
  });

  it('settles anew when what it is bound to has changed', async () => {
    const shown = show(sampleView());
    await pass(2500);
    shown.view.value = sampleView({ waiting: 3, seen: 3, expect: 'h3-cc' });
    await nextTick();
    await press('amend');
    expect(call.blockAmend).not.toHaveBeenCalled();
    await pass(500);
    await press('amend');
    expect(call.blockAmend).toHaveBeenCalledWith(expect.objectContaining({ expect: 'h3-cc' }));
  });

  it('can be undone for ten seconds, with the seconds counting down', async () => {
    call.undo.mockResolvedValue(ok(sampleDecided({ cut: 1, amendment: sampleAmendment({ state: 'revoked' }) })));
    const shown = show(sampleView());
    await pass(500);
    await press('amend');
    expect(body('undo')?.textContent).toContain('10 s');
    await pass(3000);
    expect(body('undo')?.textContent).toContain('7 s');
    call.blockShow.mockResolvedValue(ok(sampleView({ state: 'gone', waiting: 0 })));
    await press('undo');
    expect(call.undo).toHaveBeenCalledWith({ amendment: 'r7k2mqdx-a1' });
    expect(shown.wrapper.text()).toContain('Taken back');
  });

  it('takes the undo away when its time is over', async () => {
    show(sampleView());
    await pass(500);
    await press('amend');
    await pass(9999);
    expect(body('undo')).not.toBeNull();
    await pass(1);
    expect(body('undo')).toBeNull();
    expect(await useCards().undo('r7k2mqdx-b1')).toBe('ignored');
  });

  it('asks a second time for a rule that opens more, and names what it opens', async () => {
    show(sampleView());
    await pass(500);
    const cards = useCards();
    expect(await cards.amend('r7k2mqdx-b1', { number: 5, expiry: 'hour', confirmed: false })).toBe('confirm');
    await flushPromises();
    const dialog = body('amend-confirm-dialog')?.textContent ?? '';
    expect(dialog).toContain('Every other name directly under registry.example');
    expect(dialog).toContain('Would also have allowed 3 earlier actions');
    expect(dialog).toContain('for 1 hour');
    await press('amend-confirm');
    expect(call.blockAmend).not.toHaveBeenCalled();
    await pass(500);
    await press('amend-confirm');
    expect(call.blockAmend).toHaveBeenCalledWith(
      expect.objectContaining({ scope: 'run', rule: 5, confirmed: true, expires: '2026-01-02T11:01:01.000Z' }),
    );
  });

  it('amends by another rule of its menu, with an expiry that fits', async () => {
    show(sampleView());
    await pass(500);
    await press('amend-menu');
    const text = document.body.textContent ?? '';
    expect(text).toContain('Let every run of this work order connect to npm.registry.example:443');
    expect(text).toContain('Would also have allowed 3 earlier actions');
    const order = document.querySelector<HTMLInputElement>('[data-scope="order"] input');
    order?.dispatchEvent(new Event('change'));
    await flushPromises();
    const expiry = body('amend-expiry') as HTMLSelectElement;
    expect([...expiry.options].map((option) => option.textContent?.trim())).toEqual([
      'never expires',
      'for 1 hour',
      'for 1 day',
      'for 30 days',
    ]);
    expiry.value = 'day';
    expiry.dispatchEvent(new Event('change'));
    await press('amend-chosen');
    expect(call.blockAmend).toHaveBeenCalledWith({
      block: 'r7k2mqdx-b1',
      expect: 'h2-aa',
      scope: 'order',
      rule: 3,
      confirmed: false,
      expires: '2026-01-03T10:01:00.500Z',
      surface: 'window',
    });
  });

  it('takes nothing from Escape', async () => {
    show(sampleView());
    await pass(500);
    await press('amend-menu');
    body('amend-option')?.dispatchEvent(new KeyboardEvent('keydown', { key: 'Escape', bubbles: true }));
    await pass(600_000);
    expect(body('amend-option')).toBeNull();
    expect(call.blockAmend).not.toHaveBeenCalled();
    expect(call.blockDeny).not.toHaveBeenCalled();
  });

  it('makes no rule when the question is closed, and closes it when the card changes', async () => {
    const shown = show(sampleView());
    await pass(500);
    const cards = useCards();
    await cards.amend('r7k2mqdx-b1', { number: 4, expiry: 'end', confirmed: false });
    await flushPromises();
    shown.view.value = sampleView({ revision: 9, expect: 'h2-zz' });
    await flushPromises();
    expect(cards.confirming).toBeNull();
    await pass(60_000);
    expect(call.blockAmend).not.toHaveBeenCalled();
    expect(shown.wrapper.text()).toContain('This card has changed since it was drawn.');
  });

  it('denies with the reason that the agent is told', async () => {
    const amendment = sampleAmendment({ decision: 'deny', reason: 'use the mirror', words: 'Refuse it' } as never);
    call.blockDeny.mockResolvedValue(ok(sampleDecided({ amendment, released: 0, refused: 2 })));
    call.blockShow.mockResolvedValue(
      ok(sampleView({ state: 'denied', by: 'operator', reason: 'use the mirror', decided: 'denied by you' } as never)),
    );
    const shown = show(sampleView());
    await pass(500);
    await press('deny-tell');
    const box = body('deny-reason') as HTMLTextAreaElement;
    box.value = 'use the mirror';
    box.dispatchEvent(new Event('input'));
    await pass(500);
    box.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', ctrlKey: true, bubbles: true }));
    await flushPromises();
    expect(call.blockDeny).toHaveBeenCalledWith({ block: 'r7k2mqdx-b1', expect: 'h2-aa', reason: 'use the mirror', surface: 'window' });
    expect(body('decision')?.textContent).toContain('2 actions refused');
    expect(shown.wrapper.text()).toContain('The agent was told: use the mirror');
  });

  it('draws itself anew on a stale answer, and the click does nothing else', async () => {
    call.blockAmend.mockResolvedValue(no('stale', 'r7k2mqdx-b1 is not as it was shown any more'));
    call.blockShow.mockResolvedValue(ok(sampleView({ revision: 2, expect: 'h2-dd' })));
    const shown = show(sampleView());
    await pass(500);
    await press('amend');
    expect(shown.wrapper.text()).toContain('This card has changed since it was drawn.');
    expect(body('decision')).toBeNull();
    await press('amend');
    expect(call.blockAmend).toHaveBeenCalledTimes(1);
  });

  it('says who was faster', async () => {
    call.blockAmend.mockResolvedValue(no('already_decided', 'r7k2mqdx-b1 was already amended by you at 14:02'));
    show(sampleView());
    await pass(500);
    await press('amend');
    expect(body('decision')?.textContent).toBe('Already amended by you at 14:02.');
    expect(body('undo')).toBeNull();
  });

  it('keeps a failure to apply on the card', async () => {
    call.blockAmend.mockResolvedValue(no('environment', 'r7k2mqdx-a1 is recorded, but the supervisor did not confirm it'));
    const shown = show(sampleView());
    await pass(500);
    await press('amend');
    expect(shown.wrapper.text()).toContain('the supervisor did not confirm it');
    expect(body('decision')?.textContent).toContain('Amended by you at 14:02.');
  });

  it('asks before a run is stopped', async () => {
    call.runStop.mockResolvedValue(ok({} as never));
    show(sampleView());
    await pass(500);
    await press('stop-run');
    expect(call.runStop).not.toHaveBeenCalled();
    const word = [...document.querySelectorAll('[role="dialog"] button')].find((b) => b.textContent === 'Stop run');
    (word as HTMLElement).click();
    await flushPromises();
    expect(call.runStop).toHaveBeenCalledWith({ run: 'r7k2mqdx' });
  });

  it('offers no rule for what is on the floor', () => {
    const shown = show(sampleView({ candidates: [] }));
    expect(shown.wrapper.text()).toContain('No rule can open this');
    expect(body('amend')).toBeNull();
  });
});
