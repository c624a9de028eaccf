import { flushPromises } from '@vue/test-utils';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { call } from './calls.fixture';
import { begin, body, end, no, ok, pass, press, show } from './card-page.fixture';
import { useCards } from './cards';
import { memoryView, processesView, sampleAmendment, sampleDecided } from './sample.fixture';

vi.mock('@/ipc/call', () => import('./calls.fixture'));
beforeEach(begin);
afterEach(end);

describe('the card of a bound', () => {
  it('takes a figure of the operator, above what is used', async () => {
    show(memoryView());
    await pass(500);
    await press('amend-menu');
    const write = async (text: string): Promise<string> => {
      const box = body('amend-limit') as HTMLInputElement;
      box.value = text;
      box.dispatchEvent(new Event('input'));
      await flushPromises();
      return document.body.textContent ?? '';
    };
    expect(await write('6 apples')).toContain('Write a number and a unit, as 256MiB or 4GiB.');
    expect(await write('4GiB')).toContain('The bound is 4 GiB already. Write more than that.');
    expect(await write('4.2GiB')).toContain('It has used 4.2 GiB already. Write more than that.');
    expect(body('amend-chosen')?.getAttribute('aria-disabled')).toBe('true');
    await press('amend-chosen');
    body('amend-limit')?.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true }));
    await flushPromises();
    expect(call.blockAmend).not.toHaveBeenCalled();
    await write(' 5.5 GiB ');
    expect(body('amend-chosen')?.textContent).toContain('Raise memory to 5.5 GiB for this run');
    await press('amend-chosen');
    expect(call.blockAmend).toHaveBeenCalledExactlyOnceWith(expect.objectContaining({ scope: 'run', rule: 1, limit: '5.5 GiB' }));
  });

  it('asks again with the figure of the operator, where that counts for a project', async () => {
    show(memoryView());
    await pass(500);
    await press('amend-menu');
    const box = body('amend-limit') as HTMLInputElement;
    box.value = '12GiB';
    box.dispatchEvent(new Event('input'));
    document.querySelector('[data-rule="4"] input')?.dispatchEvent(new Event('change'));
    await flushPromises();
    await press('amend-chosen');
    expect(call.blockAmend).not.toHaveBeenCalled();
    expect(body('amend-confirm-dialog')?.textContent).toContain('Raise memory to 12 GiB for every run in this project');
    await pass(500);
    await press('amend-confirm');
    expect(call.blockAmend).toHaveBeenCalledExactlyOnceWith(expect.objectContaining({ scope: 'project', rule: 4, confirmed: true, limit: '12GiB' }));
  });

  it('keeps what the engine says against a figure on the card', async () => {
    const refused = 'the bound of memory cannot be 5 GiB: 5.1 GiB are used already';
    call.blockAmend.mockResolvedValue(no('bad_input', refused));
    call.blockShow.mockResolvedValue(ok(memoryView()));
    const shown = show(memoryView());
    await pass(500);
    await press('amend-menu');
    const box = body('amend-limit') as HTMLInputElement;
    box.value = '5GiB';
    box.dispatchEvent(new Event('input'));
    await flushPromises();
    await press('amend-chosen');
    expect(shown.wrapper.text()).toContain(refused);
    expect(body('amend')).not.toBeNull();
  });

  it('raises the bound of a paused run by the narrowest rule, named on the button', async () => {
    call.blockAmend.mockResolvedValue(ok(sampleDecided({ released: 1 })));
    call.blockShow.mockResolvedValue(ok(memoryView({ state: 'amended', amendment: 'r7k2mqdx-a1', waiting: 0 } as never)));
    const shown = show(memoryView());
    const text = shown.wrapper.text();
    expect(text).toContain('Paused');
    expect(text).toContain('4.2 GiB of 4 GiB');
    expect(text).toContain('256 MiB over its bound');
    expect(text).toContain('The run is paused until you decide.');
    expect(text).not.toContain('Not known');
    expect(body('amend')?.textContent).toContain('Raise memory to 6 GiB for this run');
    expect([body('deny-tell'), body('stop-run')]).toEqual([null, null]);
    await pass(500);
    await press('amend');
    expect(call.blockAmend).toHaveBeenCalledWith(expect.objectContaining({ scope: 'run', rule: 1, confirmed: false, expires: null }));
    expect(body('decision')?.textContent).toContain('the run goes on');
    expect(body('undo')).not.toBeNull();
  });

  it('offers every raise in its menu, with no end of its own', async () => {
    show(memoryView());
    await pass(500);
    await press('amend-menu');
    const rules = [...document.querySelectorAll('[data-testid="amend-option"]')].map((option) => option.getAttribute('data-rule'));
    expect(rules).toEqual(['1', '2', '3', '4']);
    document.querySelector('[data-rule="3"] input')?.dispatchEvent(new Event('change'));
    await flushPromises();
    expect((body('amend-expiry') as HTMLSelectElement).options).toHaveLength(1);
    expect(body('amend-chosen')?.textContent).toContain('Raise');
    await press('amend-chosen');
    expect(call.blockAmend).toHaveBeenCalledWith(expect.objectContaining({ scope: 'order', rule: 3, expires: null }));
  });

  it('asks before a paused run is stopped, and stops it with the reason', async () => {
    const amendment = sampleAmendment({ decision: 'deny', reason: 'it leaks', words: 'Refuse bound of memory' } as never);
    call.blockDeny.mockResolvedValue(ok(sampleDecided({ amendment, released: 0, refused: 1 })));
    call.blockShow.mockResolvedValue(ok(memoryView({ state: 'denied', by: 'operator', reason: 'it leaks', decided: 'denied by you', waiting: 0 } as never)));
    const shown = show(memoryView());
    await press('deny');
    expect(body('deny-reason')).toBeNull();
    await pass(500);
    expect(body('deny')?.textContent).toContain('Stop the run…');
    expect(await useCards().refuse('r7k2mqdx-b1')).toBe('confirm');
    await flushPromises();
    expect(call.blockDeny).not.toHaveBeenCalled();
    expect(body('deny-send')?.textContent).toContain('Stop the run');
    const box = body('deny-reason') as HTMLTextAreaElement;
    box.value = 'it leaks';
    box.dispatchEvent(new Event('input'));
    await press('deny-send');
    expect(call.blockDeny).toHaveBeenCalledWith({ block: 'r7k2mqdx-b1', expect: 'h2-aa', reason: 'it leaks', surface: 'window' });
    expect(body('decision')?.textContent).toContain('the run is stopped');
    expect(shown.wrapper.text()).toContain('The reason given: it leaks');
    expect(body('deny-reason')).toBeNull();
  });

  it('says who was faster at a bound', async () => {
    call.blockAmend.mockResolvedValue(no('already_decided', 'r7k2mqdx-b1 was already amended by you at 14:02'));
    call.blockShow.mockResolvedValue(ok(memoryView({ state: 'amended', amendment: 'r7k2mqdx-a1', waiting: 0, decided: 'amended by you at 14:02' } as never)));
    show(memoryView());
    await pass(500);
    await press('amend');
    expect(body('decision')?.textContent).toBe('Already amended by you at 14:02.');
  });

  it('says of processes that the run goes on and that a rule is for later ones', async () => {
    const shown = show(processesView());
    const text = shown.wrapper.text();
    expect(text).toContain('Goes on');
    expect(text).toContain('512 of 512 processes');
    expect(text).toContain('More than that is refused to the run, which goes on.');
    expect(text).toContain('from the next one on: what runs now keeps its limit');
    expect(body('amend')?.textContent).toContain('Raise processes to 1032 processes for every run of this work order');
    expect(body('stop-run')).not.toBeNull();
    await pass(500);
    await press('deny');
    expect(call.blockDeny).toHaveBeenCalledWith(expect.objectContaining({ reason: '' }));
  });
});
