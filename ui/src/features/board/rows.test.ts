import { clearMocks, mockIPC } from '@tauri-apps/api/mocks';
import { flushPromises, mount } from '@vue/test-utils';
import { createPinia, setActivePinia } from 'pinia';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createMemoryHistory, createRouter } from 'vue-router';
import { anOrder, aRun } from '@/lib/samples.fixture';
import BoardOrder from './BoardOrder.vue';
import BoardRun from './BoardRun.vue';
import BulkDialog from './BulkDialog.vue';

const EMPTY = { template: '<div />' };
const router = createRouter({
  history: createMemoryHistory(),
  routes: [
    { path: '/', component: EMPTY },
    { path: '/run/:id/:tab?', name: 'run', component: EMPTY },
    { path: '/order/:id', name: 'order', component: EMPTY },
  ],
});
const now = Date.parse('2026-12-01T11:00:00Z');
const given = { sample: null, now, picked: false, current: false };

beforeEach(() => setActivePinia(createPinia()));
afterEach(() => {
  document.body.replaceChildren();
  clearMocks();
});

describe('row of a run', () => {
  it('says in words what state it is in and that it needs the operator', () => {
    const row = mount(BoardRun, { props: { ...given, run: aRun({ open_blocks: 2 }) }, global: { plugins: [router] } });
    expect(row.get('[data-testid="run-state"]').text()).toBe('Running2 open blocks');
    expect(row.get('a').attributes('href')).toBe('/run/rone/blocks');
    expect(row.attributes('data-run')).toBe('rone');
  });
  it('says at which bound it is paused, while it waits there', async () => {
    const paused = 'paused at its memory bound';
    const row = mount(BoardRun, { props: { ...given, run: aRun({ open_blocks: 1 }), paused }, global: { plugins: [router] } });
    expect(row.text()).toContain(paused);
    await row.setProps({ run: aRun({ open_blocks: 0 }) });
    expect(row.text()).not.toContain(paused);
  });
  it('shows a hostile title of any length as plain, visible text', () => {
    const title = `<b>x</b>\u202e\n${'y'.repeat(10_000)}`;
    const row = mount(BoardRun, { props: { ...given, run: aRun({ title, state: 'hibernating' }) }, global: { plugins: [router] } });
    const shown = row.get('a').text();
    expect(shown.startsWith('<b>x</b>⟦U+202E⟧⏎yyy')).toBe(true);
    expect(shown.length).toBeLessThanOrEqual(300);
    expect(row.get('[data-testid="run-state"]').text()).toBe('hibernating');
  });
});

describe('row of an order', () => {
  it('says why it waits and links to whom it waits for', () => {
    const order = anOrder({ wait: { wait: 'dependency', on: [{ order: 'tests', state: 'unfinished' }], words: 'tests is not finished' } });
    const row = mount(BoardOrder, { props: { order, now, picked: false, current: false, titleOf: (id: string) => `Title of ${id}` }, global: { plugins: [router] } });
    expect(row.text()).toContain('tests is not finished');
    expect(row.findAll('a').map((link) => [link.attributes('href'), link.text()])).toContainEqual(['/order/tests', 'Title of tests']);
  });
});

describe('preview of what is done to many', () => {
  const rows = [
    { kind: 'run', id: 'a', run: aRun({ id: 'a', title: 'Dirty one', state: 'review' }) },
    { kind: 'run', id: 'b', run: aRun({ id: 'b', title: 'Unlanded one', state: 'failed' }) },
    { kind: 'run', id: 'c', run: aRun({ id: 'c', title: 'Live one' }) },
  ] as const;

  it('flags dirty and unlanded work, leaves out what it cannot touch, and keeps each failure where it belongs', async () => {
    const asked: string[] = [];
    mockIPC((name, args) => {
      asked.push(name);
      const request = (args as { request?: { run?: string } }).request;
      if (name === 'disk_show') {
        const runs = [
          { run: 'a', kept: { reason: 'dirty', files: 2, first: ['x'] } },
          { run: 'b', kept: { reason: 'unlanded', commits: 3 } },
        ];
        return { repositories: [{ repo: '/r', bytes: 0, runs }] };
      }
      if (name === 'run_discard' && request?.run === 'b') return Promise.reject({ code: 'conflict', message: 'Its worktree is in use' });
      return aRun({ id: 'a', state: 'discarded', snapshot: 's' });
    });
    const dialog = mount(BulkDialog, { props: { bulk: 'discard', rows, open: true }, global: { plugins: [router] }, attachTo: document.body });
    await flushPromises();
    const page = document.body;
    expect(page.textContent).toContain('2 uncommitted files: x');
    expect(page.textContent).toContain('3 commits not in its base branch');
    expect(page.textContent).not.toContain('Live one');
    expect(asked).not.toContain('run_discard');
    [...page.querySelectorAll('button')].find((button) => button.textContent?.includes('Discard them'))?.click();
    await flushPromises();
    expect(asked.filter((name) => name === 'run_discard')).toHaveLength(2);
    expect(page.querySelector('[role="alert"]')?.textContent).toContain('Its worktree is in use.');
    expect(dialog.emitted('update:open')).toBeUndefined();
    dialog.unmount();
  });

  it('does not offer to discard what it could not look at', async () => {
    mockIPC((name) => (name === 'disk_show' ? Promise.reject({ code: 'environment', message: 'The disk cannot be read' }) : {}));
    const dialog = mount(BulkDialog, { props: { bulk: 'discard', rows, open: true }, global: { plugins: [router] }, attachTo: document.body });
    await flushPromises();
    const button = [...document.body.querySelectorAll('button')].find((each) => each.textContent?.includes('Discard them'));
    expect(button?.getAttribute('aria-disabled')).toBe('true');
    dialog.unmount();
  });
});
