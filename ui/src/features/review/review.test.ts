// The review as the operator uses it, over answers of a pretended engine.

import { flushPromises, mount } from '@vue/test-utils';
import { createPinia, setActivePinia } from 'pinia';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import type { Mock } from 'vitest';
import { createMemoryHistory, createRouter } from 'vue-router';
import type { VueWrapper } from '@vue/test-utils';
import type { DiffRequest, DiffView, RunView } from '@/ipc/bindings';
import ChangesTab from './ChangesTab.vue';
import { sampleCheck, sampleDiff, sampleFile, sampleGate, sampleRun } from './sample.fixture';

const ok = <T>(value: T) => Promise.resolve({ ok: true as const, value });
const no = (code: string, message: string) => Promise.resolve({ ok: false as const, failure: { code, message } });
const calls = vi.hoisted(() => new Proxy({} as Record<string, Mock>, {
  get(all, name: string) {
    return (all[name] ??= vi.fn());
  },
}));
vi.mock('@/ipc/call', () => ({ call: calls, failureOf: (error: unknown) => error, settled: vi.fn() }));

const PATCH = '@@ -1,2 +1,2 @@\n-let a = 1;\n+let a = "<img src=x onerror=alert(1)>";\u202e\n b\n';
const HEAD = 'a'.repeat(40);
let shown: VueWrapper | null = null;

function answer(name: string, value: unknown): void {
  calls[name]?.mockImplementation(() => ok(value));
}
async function review(diff: DiffView, run: RunView = sampleRun()): Promise<VueWrapper> {
  answer('runDiff', diff);
  const router = createRouter({ history: createMemoryHistory(), routes: [{ path: '/:rest(.*)*', component: { template: '<i />' } }] });
  shown = mount(ChangesTab, { props: { run }, attachTo: document.body, global: { plugins: [router] } });
  await flushPromises();
  await vi.waitFor(() => expect(calls['runDiff']).toHaveBeenCalled());
  await flushPromises();
  return shown;
}
function body(): string {
  return document.body.textContent ?? '';
}
function press(id: string): void {
  document.querySelector<HTMLElement>(`[data-testid="${id}"]`)?.click();
}
async function button(label: string): Promise<void> {
  const found = [...document.querySelectorAll('button')].find((one) => one.textContent?.trim().startsWith(label));
  expect(found, label).toBeDefined();
  found?.click();
  await flushPromises();
}
async function type(field: string, text: string): Promise<void> {
  const label = [...document.querySelectorAll('label')].find((one) => one.textContent?.startsWith(field));
  const box = document.getElementById(label?.htmlFor ?? '') as HTMLTextAreaElement | null;
  expect(box, field).not.toBeNull();
  if (box) box.value = text;
  box?.dispatchEvent(new Event('input', { bubbles: true }));
  await flushPromises();
}
const enter = (): boolean => window.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', ctrlKey: true, bubbles: true, cancelable: true }));

beforeEach(() => {
  shown?.unmount();
  shown = null;
  document.body.innerHTML = '';
  localStorage.clear();
  setActivePinia(createPinia());
  // What a real page would measure: lists of 600 px, rows of 24.
  vi.spyOn(HTMLElement.prototype, 'clientHeight', 'get').mockReturnValue(600);
  vi.spyOn(HTMLElement.prototype, 'clientWidth', 'get').mockReturnValue(900);
  vi.spyOn(HTMLElement.prototype, 'offsetHeight', 'get').mockReturnValue(24);
  for (const name of ['runShow', 'runList', 'blockList', 'orderList', 'watch']) calls[name]?.mockImplementation(() => no('busy', 'not now'));
  answer('runDiffFile', { patch: PATCH, truncated: false, binary: false, old_size: 10, new_size: 20 });
  answer('mergeList', { merges: [] });
  answer('runCommits', { expect: 'e1', head: HEAD, total: 0, truncated: false, commits: [], next: null });
  calls['runMerge']?.mockReset();
});

describe('the diff', () => {
  it('shows text of the run as text', async () => {
    await review(sampleDiff());
    await vi.waitFor(() => expect(body()).toContain('onerror=alert(1)'));
    expect(document.querySelector('img')).toBeNull();
    expect(body()).toContain('⟦U+202E⟧');
  });

  it('reads one file at a time, with the token of what is shown', async () => {
    await review(sampleDiff({ files: [sampleFile('a'), sampleFile('b')] }));
    expect(calls['runDiff']).toHaveBeenCalledWith({ run: 'r7k2mqdx', patch: false });
    expect(calls['runDiffFile']).toHaveBeenCalledWith({ run: 'r7k2mqdx', expect: 'e1', path: 'a' });
    expect(calls['runDiffFile']).not.toHaveBeenCalledWith(expect.objectContaining({ path: 'b' }));
  });

  it('asks before it reads a very large file', async () => {
    calls['runDiffFile']?.mockClear();
    await review(sampleDiff({ files: [sampleFile('big', { added: 3_000_000 })] }));
    expect(body()).toContain('Too large to show here: 3,000,001 lines.');
    expect(calls['runDiffFile']).not.toHaveBeenCalled();
    await button('Load the first part');
    expect(calls['runDiffFile']).toHaveBeenCalledOnce();
  });

  it('keeps few rows in the page for many files', async () => {
    await review(sampleDiff({ files: Array.from({ length: 10_000 }, (_, at) => sampleFile(`f${String(at)}\n\u202e`)) }));
    const rows = document.querySelectorAll('[data-testid="diff-file"]');
    expect(rows.length).toBeGreaterThan(10);
    expect(rows.length).toBeLessThan(60);
    expect(rows[0]?.textContent).toContain('f0⏎⟦U+202E⟧');
  });
});

describe('merging', () => {
  it('asks first, and is for what was shown', async () => {
    await review(sampleDiff());
    answer('runMerge', sampleRun({ state: 'merged', commit: 'c'.repeat(40) } as never));
    enter();
    await flushPromises();
    expect(calls['runMerge']).not.toHaveBeenCalled();
    press('merge');
    await flushPromises();
    expect(body()).toContain('Merge it?');
    enter();
    await flushPromises();
    expect(calls['runMerge']).toHaveBeenCalledExactlyOnceWith({ run: 'r7k2mqdx', expect: 'e1' });
  });

  it('is off with its reason where the base has moved, and offers the queue', async () => {
    await review(sampleDiff({ gate: sampleGate({ base_moved: 1 }), refusal: 'main has moved on' }));
    expect(document.querySelector('[data-testid="merge-reason"]')?.textContent).toContain('main has 1 commit that it does not build on');
    press('merge');
    await flushPromises();
    expect(body()).not.toContain('Merge it?');
    await button('Merge by the queue');
    answer('mergeQueue', { number: 1, run: 'r7k2mqdx', by_itself: false, queued_at: '', ended_at: null, standing: 'working' });
    press('merge-confirm');
    await flushPromises();
    expect(calls['mergeQueue']).toHaveBeenCalledExactlyOnceWith({ run: 'r7k2mqdx', expect: 'e1' });
  });

  it('needs a written reason against checks', async () => {
    const failing = sampleCheck({ result: { result: 'exited', code: 1 }, words: 'make test failed', tail: ['\u001b[31mno'] });
    await review(sampleDiff({ gate: sampleGate({ checks: [failing] }), refusal: 'check make test failed', refused_for: 'checks' }));
    answer('runMerge', sampleRun({ state: 'merged', commit: 'c' } as never));
    expect(body()).toContain('␛[31mno');
    press('merge');
    await flushPromises();
    press('merge-confirm');
    await flushPromises();
    expect(calls['runMerge']).not.toHaveBeenCalled();
    await type('Why it may be merged', 'flaky');
    press('merge-confirm');
    await flushPromises();
    expect(calls['runMerge']).toHaveBeenCalledExactlyOnceWith({ run: 'r7k2mqdx', expect: 'e1', despite_checks: 'flaky' });
  });

  it('needs an explicit word for a secret', async () => {
    await review(sampleDiff({ refusal: 'its commits contain the secret "TOKEN"', refused_for: 'secret' }));
    answer('runMerge', sampleRun({ state: 'merged', commit: 'c' } as never));
    press('merge');
    await flushPromises();
    expect(body()).toContain('Its commits contain the secret "TOKEN".');
    press('merge-confirm');
    await flushPromises();
    expect(calls['runMerge']).not.toHaveBeenCalled();
    document.querySelector<HTMLInputElement>('[role="dialog"] input[type="checkbox"]')?.click();
    await flushPromises();
    press('merge-confirm');
    await flushPromises();
    expect(calls['runMerge']).toHaveBeenCalledExactlyOnceWith({ run: 'r7k2mqdx', expect: 'e1', with_secrets: true });
  });

  it('shows what is new when the run has moved', async () => {
    await review(sampleDiff());
    const later = sampleDiff({ expect: 'e2', head: 'd'.repeat(40) });
    const fresh = { ...later, gate: null, files: [sampleFile('new.rs')], patch: 'diff --git a/new.rs b/new.rs\n@@ -0,0 +1 @@\n+fresh line\n' };
    calls['runDiff']?.mockImplementation((request: DiffRequest) => ok(request.since === HEAD ? fresh : later));
    calls['runMerge']?.mockImplementation(() => no('stale', 'commits were added by hand'));
    press('merge');
    await flushPromises();
    press('merge-confirm');
    await flushPromises();
    await vi.waitFor(() => expect(body()).toContain('The run has new commits since you looked: reviewing only what is new.'));
    await vi.waitFor(() => expect(body()).toContain('fresh line'));
    await button('All');
    expect(document.querySelector('[data-testid="diff-file"]')?.textContent).toContain('a.rs');
  });
});

describe('the keyboard', () => {
  it('walks lines, comments on one, and comes back to it', async () => {
    await review(sampleDiff());
    await vi.waitFor(() => expect(document.querySelector('.diff')).not.toBeNull());
    const lines = document.querySelector<HTMLElement>('.diff');
    const key = async (name: string): Promise<void> => {
      lines?.dispatchEvent(new KeyboardEvent('keydown', { key: name, bubbles: true, cancelable: true }));
      await flushPromises();
    };
    await key('ArrowDown');
    await key('ArrowLeft');
    await key('c');
    expect(body()).toContain('Comment on src/a.rs:1 (before the change)');
    expect(document.activeElement?.tagName).toBe('TEXTAREA');
    await type('Comment on src/a.rs:1', 'Keep it');
    document.activeElement?.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', ctrlKey: true, bubbles: true, cancelable: true }));
    await flushPromises();
    expect(document.querySelectorAll('article').length).toBeGreaterThan(0);
    expect(calls['runMerge']).not.toHaveBeenCalled();
    expect(body()).not.toContain('Merge it?');
  });
});

describe('the rest', () => {
  it('names what the gate found and flags first', async () => {
    await review(sampleDiff({ flags: ['adds .vscode/tasks.json'], gate: sampleGate({ denied: ['tcp x.example:443 (denied by you)'] }) }));
    const summary = document.querySelector('[data-testid="gate-summary"]')?.textContent ?? '';
    expect(summary.indexOf('adds .vscode/tasks.json')).toBeLessThan(summary.indexOf('denied by you'));
  });

  it('discards after saying what goes, and names the snapshot', async () => {
    await review(sampleDiff());
    answer('runDiscard', sampleRun({ state: 'discarded', snapshot: 'refs/foreman/s' } as never));
    press('discard');
    await flushPromises();
    expect(body()).toContain('/data/worktrees/r7k2mqdx');
    expect(calls['runDiscard']).not.toHaveBeenCalled();
    await button('Discard');
    const confirm = [...document.querySelectorAll('[role="dialog"] button')].find((one) => one.textContent?.trim() === 'Discard') as HTMLElement | undefined;
    confirm?.click();
    await flushPromises();
    expect(calls['runDiscard']).toHaveBeenCalledWith({ run: 'r7k2mqdx' });
  });

  it('offers to restore what was discarded', async () => {
    await review(sampleDiff(), sampleRun({ state: 'discarded', snapshot: 'refs/foreman/s' } as never));
    expect(body()).toContain('refs/foreman/s');
    answer('runRestore', sampleRun());
    await button('Restore');
    expect(calls['runRestore']).toHaveBeenCalledOnce();
  });

  it('says what a live run and one without changes are waiting for', async () => {
    calls['runDiff']?.mockClear();
    const live = sampleRun({ state: 'running', step: 'agent', outcome: null, ended_at: null } as never);
    const router = createRouter({ history: createMemoryHistory(), routes: [{ path: '/', component: { template: '<i />' } }] });
    shown = mount(ChangesTab, { props: { run: live }, global: { plugins: [router] } });
    await flushPromises();
    expect(shown.text()).toContain('Still at work');
    expect(calls['runDiff']).not.toHaveBeenCalled();
  });

  it('sends comments as one message and forgets the draft', async () => {
    const first = await review(sampleDiff());
    await button('Comment on the file');
    await type('Comment on src/a.rs', 'Why all of it?');
    first.unmount();
    shown = null;
    await review(sampleDiff());
    expect((document.querySelector('form textarea') as HTMLTextAreaElement | null)?.value).toBe('Why all of it?');
    await button('Add the comment');
    answer('runFollowUp', sampleRun({ id: 'rnext000', state: 'provisioning' } as never));
    press('comment-send');
    await flushPromises();
    expect(calls['runFollowUp']).not.toHaveBeenCalled();
    press('comment-send-confirm');
    await flushPromises();
    expect(calls['runFollowUp']).toHaveBeenCalledExactlyOnceWith({ run: 'r7k2mqdx', message: expect.stringContaining('1. src/a.rs\nWhy all of it?') });
    expect(body()).toContain('rnext000');
    expect(Object.keys(localStorage).some((key) => key.startsWith('sdf.review.r7k2mqdx'))).toBe(false);
  });
});
