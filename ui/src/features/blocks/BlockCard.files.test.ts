import { flushPromises } from '@vue/test-utils';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { call } from './calls.fixture';
import { begin, body, end, pass, press, show } from './card-page.fixture';
import { fileView } from './sample.fixture';

vi.mock('@/ipc/call', () => import('./calls.fixture'));
beforeEach(begin);
afterEach(end);

describe('the card of files', () => {
  it('offers files once and by their folder', async () => {
    const shown = show(fileView());
    const text = shown.wrapper.text();
    expect(text).toContain('write 5 paths in /srv/data');
    expect(text).toContain('File wall. No rule allows writing /srv/data/a.txt');
    expect(text).toContain('/srv/data/a.txt (not there yet)');
    await pass(500);
    await press('amend-menu');
    const options = [...document.querySelectorAll('[data-testid="amend-option"]')];
    expect(options.map((option) => option.getAttribute('data-scope'))).toEqual(['once', 'run']);
    expect(options[1]?.textContent).toContain('writing every file and folder below it');
    document.querySelector('[data-scope="once"] input')?.dispatchEvent(new Event('change'));
    await flushPromises();
    await press('amend-chosen');
    expect(call.blockAmend).toHaveBeenCalledWith(expect.objectContaining({ scope: 'once', rule: 1, expires: null }));
    expect(body('decision')?.textContent).toContain('2 actions let go');
  });

  it('lets a run write a folder of files by its button', async () => {
    show(fileView());
    await pass(500);
    await press('amend');
    expect(call.blockAmend).toHaveBeenCalledWith(expect.objectContaining({ scope: 'run', rule: 2, confirmed: false }));
  });
});
