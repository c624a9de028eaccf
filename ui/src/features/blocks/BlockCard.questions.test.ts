import { flushPromises } from '@vue/test-utils';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { nextTick } from 'vue';
import { call } from './calls.fixture';
import { confirmWords, primary } from './candidates';
import { begin, body, end, pass, show } from './card-page.fixture';
import { questionView, sampleDecided } from './sample.fixture';
import { outcomeWords, stateTitle, takenBackWords } from './words';

vi.mock('@/ipc/call', () => import('./calls.fixture'));
beforeEach(begin);
afterEach(end);

describe('the card of a question of an agent', () => {
  it('says what is asked, what the agent offers, and that a yes opens no wall', async () => {
    const shown = show(questionView());
    await nextTick();
    const text = shown.wrapper.text();
    expect(text).toContain('Asks you');
    expect(text).toContain('question of opencode: execute {"command":"rm x"}');
    expect(text).toContain('It offers: “Allow');
    expect(text).toContain('A yes opens no wall');
    expect(text).toContain('1 question');
    expect(text).toContain('Answer yes');
    expect(text).toContain('Answer no');
    expect(text).not.toContain('Process');
    expect(text).not.toContain('\u202e');
  });

  it('answers what is asked now, and no more', async () => {
    show(questionView());
    await pass(500);
    body('amend')?.click();
    await flushPromises();
    expect(call.blockAmend).toHaveBeenCalledWith(expect.objectContaining({ scope: 'once', rule: 1, confirmed: false }));
  });

  it('says why a yes to a whole tool is asked twice', () => {
    const view = questionView();
    expect(primary(view)?.number).toBe(1);
    const wide = view.candidates[1];
    if (wide === undefined) throw new Error('no rule');
    expect(confirmWords(wide)).toContain('every question about this tool');
  });

  it('says what came of an answer, and of taking it back', () => {
    const view = questionView();
    expect(stateTitle(view)).toBe('Asks you');
    expect(outcomeWords(sampleDecided({ released: 1 }), view.subject)).toContain('; the agent goes on.');
    expect(takenBackWords(sampleDecided(), view.subject)).toContain('its next question is asked again');
  });
});

describe('an agent that gives up', () => {
  it('is named on the card, and when a decision came later', async () => {
    const shown = show(questionView({ gives_up: 'Codex gives a command of its own up after 10 s: it says so' }));
    await nextTick();
    expect(shown.wrapper.text()).toContain('Codex gives a command of its own up after 10 s: it says so.');
    const late = sampleDecided({ late: 'it came 40 s after the action' });
    expect(outcomeWords(late, questionView().subject)).toContain('. It came 40 s after the action.');
  });
});
