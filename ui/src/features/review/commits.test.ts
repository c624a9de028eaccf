// The commits of a run in its review, over answers of a pretended engine.

import { flushPromises, mount } from '@vue/test-utils';
import type { VueWrapper } from '@vue/test-utils';
import { createPinia, setActivePinia } from 'pinia';
import { beforeEach, describe, expect, it, vi } from 'vitest';
import type { Mock } from 'vitest';
import { createMemoryHistory, createRouter } from 'vue-router';
import type { CommitPage, CommitsRequest, CommitView, DiffFileRequest, DiffRequest } from '@/ipc/bindings';
import ChangesTab from './ChangesTab.vue';
import { sampleDiff, sampleFile, sampleRun } from './sample.fixture';

const ok = <T>(value: T) => Promise.resolve({ ok: true as const, value });
const no = (code: string, message: string) => Promise.resolve({ ok: false as const, failure: { code, message } });
const calls = vi.hoisted(() => new Proxy({} as Record<string, Mock>, {
  get(all, name: string) {
    return (all[name] ??= vi.fn());
  },
}));
vi.mock('@/ipc/call', () => ({ call: calls, failureOf: (error: unknown) => error, settled: vi.fn() }));

const sha = (at: number): string => at.toString(16).padStart(40, '0');
const commit = (at: number, changes: Partial<CommitView> = {}): CommitView => ({
  sha: sha(at), subject: `Work ${String(at)}`, authored_at: '2026-01-02T10:00:00Z', parents: 1, files: 1, added: 1, removed: 0, ...changes,
});
let shown: VueWrapper | null = null;
let all: CommitView[] = [];

function pageOf({ skip = 0, limit }: CommitsRequest): CommitPage {
  const commits = all.slice(skip, skip + (limit ?? 100));
  const next = skip + commits.length;
  return { expect: 'e1', head: sha(1), total: all.length, truncated: false, commits, next: next < all.length ? next : null };
}
async function review(commits: CommitView[]): Promise<void> {
  all = commits;
  const router = createRouter({ history: createMemoryHistory(), routes: [{ path: '/:rest(.*)*', component: { template: '<i />' } }] });
  shown = mount(ChangesTab, { props: { run: sampleRun() }, attachTo: document.body, global: { plugins: [router] } });
  await flushPromises();
}
const rows = (): HTMLElement[] => [...document.querySelectorAll<HTMLElement>('[data-testid="commit"]')];
const body = (): string => document.body.textContent ?? '';
async function press(selector: string): Promise<void> {
  document.querySelector<HTMLElement>(selector)?.click();
  await flushPromises();
}
const files = (): string[] => [...document.querySelectorAll('[data-testid="diff-file"]')].map((one) => one.textContent ?? '');

beforeEach(() => {
  shown?.unmount();
  document.body.innerHTML = '';
  localStorage.clear();
  setActivePinia(createPinia());
  vi.spyOn(HTMLElement.prototype, 'clientHeight', 'get').mockReturnValue(200);
  vi.spyOn(HTMLElement.prototype, 'clientWidth', 'get').mockReturnValue(900);
  vi.spyOn(HTMLElement.prototype, 'offsetHeight', 'get').mockReturnValue(28);
  for (const name of ['runShow', 'runList', 'blockList', 'orderList', 'watch']) calls[name]?.mockImplementation(() => no('busy', 'not now'));
  for (const name of ['runCommits', 'runDiff', 'runDiffFile', 'mergeList']) calls[name]?.mockReset();
  calls['mergeList']?.mockImplementation(() => ok({ merges: [] }));
  calls['runCommits']?.mockImplementation((request: CommitsRequest) => ok(pageOf(request)));
  calls['runDiff']?.mockImplementation(({ commit: of }: DiffRequest) =>
    ok(of ? sampleDiff({ expect: `of ${of}`, gate: null, files: [sampleFile('only.rs')] }) : sampleDiff()));
  calls['runDiffFile']?.mockImplementation(({ commit: of }: DiffFileRequest) =>
    ok({ patch: `@@ -0,0 +1 @@\n+${of ? 'of one commit' : 'of all of it'}\n`, truncated: false, binary: false, old_size: 1, new_size: 2 }));
});

describe('the commits of a run', () => {
  it('are listed with all changes chosen, and one of them shows its own', async () => {
    await review([commit(2), commit(1, { parents: 2, added: null, removed: null })]);
    expect(calls['runCommits']).toHaveBeenCalledExactlyOnceWith({ run: 'r7k2mqdx', expect: 'e1', skip: 0, limit: 100 });
    expect(rows().map((row) => row.getAttribute('aria-pressed'))).toEqual(['true', 'false', 'false']);
    expect(rows()[2]?.textContent).toContain('lines not counted');
    expect(rows()[2]?.textContent).toContain('merge');
    await vi.waitFor(() => expect(body()).toContain('of all of it'));

    await press(`[data-commit="${sha(1)}"]`);
    expect(calls['runDiff']).toHaveBeenLastCalledWith({ run: 'r7k2mqdx', commit: sha(1), patch: false });
    expect(calls['runDiffFile']).toHaveBeenLastCalledWith({ run: 'r7k2mqdx', expect: `of ${sha(1)}`, path: 'only.rs', commit: sha(1) });
    await vi.waitFor(() => expect(body()).toContain('of one commit'));
    expect(files()).toHaveLength(1);
    expect(body()).toContain('Only one commit is shown.');

    await press('[data-testid="commit-all"]');
    await vi.waitFor(() => expect(body()).toContain('of all of it'));
    expect(files()[0]).toContain('a.rs');
  });

  it('merge all of it, also while one of them is looked at', async () => {
    await review([commit(2), commit(1)]);
    calls['runMerge']?.mockImplementation(() => ok(sampleRun({ state: 'merged', commit: 'c'.repeat(40) } as never)));
    await press(`[data-commit="${sha(1)}"]`);
    await press('[data-testid="merge"]');
    await press('[data-testid="merge-confirm"]');
    expect(calls['runMerge']).toHaveBeenCalledExactlyOnceWith({ run: 'r7k2mqdx', expect: 'e1' });
  });

  it('take no comment on lines that are not those of the whole', async () => {
    await review([commit(1)]);
    await press(`[data-commit="${sha(1)}"]`);
    await vi.waitFor(() => expect(body()).toContain('of one commit'));
    document.querySelector('.diff')?.dispatchEvent(new KeyboardEvent('keydown', { key: 'c', bubbles: true, cancelable: true }));
    await flushPromises();
    expect(document.querySelector('[data-testid="changes"] textarea[rows="3"]')).toBeNull();
    expect(body()).not.toContain('Comment on only.rs:1');
  });

  it('come by the thousand in pages, and few of them are in the page', async () => {
    await review(Array.from({ length: 3000 }, (_, at) => commit(at + 1)));
    expect(body()).toContain('3,000 commits');
    expect(body()).toContain('100 of 3,000 are listed.');
    expect(rows().length).toBeLessThan(40);
    await press('[data-testid="commits-more"]');
    expect(calls['runCommits']).toHaveBeenLastCalledWith({ run: 'r7k2mqdx', expect: 'e1', skip: 100, limit: 100 });
    expect(body()).toContain('200 of 3,000 are listed.');
    expect(rows().length).toBeLessThan(40);
  });

  it('cannot write more than their line', async () => {
    await review([commit(1, { subject: `<img src=x>\u202e\u001b[2J${'x'.repeat(100_000)}` })]);
    expect(document.querySelector('img')).toBeNull();
    const text = rows()[1]?.textContent ?? '';
    expect(text).toContain('<img src=x>⟦U+202E⟧␛[2J');
    expect(text.length).toBeLessThan(400);
  });

  it('are read again when the run has moved', async () => {
    await review([commit(1)]);
    await press(`[data-commit="${sha(1)}"]`);
    calls['runDiff']?.mockImplementation(() => ok(sampleDiff({ expect: 'e2' })));
    calls['runCommits']?.mockImplementation((request: CommitsRequest) => (request.expect === 'e2' ? ok(pageOf(request)) : no('stale', 'moved')));
    all = [commit(7), commit(1)];
    await shown?.setProps({ run: sampleRun({ revision: 2 } as never) });
    await flushPromises();
    await vi.waitFor(() => expect(rows()).toHaveLength(3));
    expect(rows()[0]?.getAttribute('aria-pressed')).toBe('true');
  });

  it('say why they are not there, and can be asked for again', async () => {
    calls['runCommits']?.mockImplementation(() => no('environment', 'The repository cannot be read'));
    await review([commit(1)]);
    expect(body()).toContain('The repository cannot be read');
    expect(files()).toHaveLength(1);
  });
});
