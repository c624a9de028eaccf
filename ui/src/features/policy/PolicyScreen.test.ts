import { flushPromises, mount } from '@vue/test-utils';
import { createPinia, setActivePinia } from 'pinia';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { defineComponent, h } from 'vue';
import { createMemoryHistory, createRouter } from 'vue-router';
import { call } from '@/ipc/call';
import type { RunView } from '@/ipc/bindings';
import { useLive } from '@/live/store';
import PolicyScreen from './PolicyScreen.vue';
import PolicyTab from './PolicyTab.vue';
import { sampleDecision, samplePolicy } from './policy.fixture';

vi.mock('@/ipc/call', () => ({
  call: {
    amendmentList: vi.fn(),
    repoList: vi.fn(),
    policyRevoke: vi.fn(),
    policyTrust: vi.fn(),
    policyWrite: vi.fn(),
    policyWhy: vi.fn(),
    policyShow: vi.fn(),
  },
}));

const api = vi.mocked(call);
const ok = <T>(value: T) => ({ ok: true as const, value });
const no = (code: 'stale' | 'not_found', message: string) => ({ ok: false as const, failure: { code, message } });
const page = defineComponent({ render: () => h('div') });
const RUN = { id: 'r7k2mqdx', title: 'Update', repo: '/home/op/project', state: 'running', step: 'agent', revision: 2 };
const FILE = { file: '/home/op/project/.foreman/policy.toml', text: '# ours\n', expect: 'aa', trusted: false };
const REPO = {
  path: '/home/op/project',
  name: 'project',
  reachable: true,
  runs: 1,
  last_used: '2026-01-02T10:00:00Z',
  policy_file: 'untrusted',
  project_file: 'absent',
};
const NO_BOUNDS = { wall_seconds: 7200, memory_bytes: null, processes: null, output_bytes: null };

let wrapper: ReturnType<typeof mount> | null = null;

async function show(component: typeof PolicyScreen | typeof PolicyTab, path: string, props: Record<string, unknown> = {}) {
  const router = createRouter({
    history: createMemoryHistory(),
    routes: [
      { path: '/policy', name: 'policy', component: page },
      { path: '/run/:id/:tab?', name: 'run', component: page },
    ],
  });
  await router.push(path);
  wrapper = mount(component as never, { props: props as never, global: { plugins: [router] }, attachTo: document.body });
  await flushPromises();
  return wrapper;
}

const text = () => document.body.textContent ?? '';
const rows = () => [...document.querySelectorAll<HTMLElement>('[data-testid="policy-row"]')];
async function press(word: string): Promise<void> {
  const button = [...document.querySelectorAll('button')].reverse().find((one) => one.textContent?.trim() === word);
  button?.click();
  await flushPromises();
}

beforeEach(() => {
  setActivePinia(createPinia());
  const live = useLive();
  live.runs = new Map([[RUN.id, RUN as unknown as RunView]]);
  live.runOrder = [RUN.id];
  api.policyShow.mockResolvedValue(
    ok({ policy: samplePolicy(), bounds: NO_BOUNDS, amendments: [sampleDecision()], project_file: 'untrusted' }),
  );
  api.policyTrust.mockResolvedValue(ok(FILE));
  api.repoList.mockResolvedValue(ok({ repos: [REPO] }));
});
afterEach(() => {
  wrapper?.unmount();
  wrapper = null;
  vi.clearAllMocks();
});

describe('the policy screen', () => {
  it('lists amendments in force, and everything when asked', async () => {
    const all = [sampleDecision(), sampleDecision({ id: 'r7k2mqdx-a2', state: 'revoked' })];
    api.amendmentList.mockImplementation(({ all: every }) => Promise.resolve(ok({ amendments: every ? all : all.slice(0, 1) })));
    await show(PolicyScreen, '/policy');
    expect(rows()).toHaveLength(1);
    expect(text()).toContain('1 amendment in force.');
    expect(rows()[0]?.textContent).toContain('12');
    document.querySelector<HTMLElement>('[role="switch"]')?.click();
    await flushPromises();
    expect(rows()).toHaveLength(2);
  });

  it('finds the decision that a link names, also when it is over', async () => {
    const gone = sampleDecision({ id: 'r7k2mqdx-a9', state: 'lapsed' });
    api.amendmentList.mockImplementation(({ all }) => Promise.resolve(ok({ amendments: all ? [gone] : [] })));
    await show(PolicyScreen, '/policy?amendment=r7k2mqdx-a9');
    expect(rows()[0]?.dataset['amendment']).toBe('r7k2mqdx-a9');
  });

  it('says what revoking does before it does it', async () => {
    api.amendmentList.mockResolvedValue(ok({ amendments: [sampleDecision()] }));
    api.policyRevoke.mockResolvedValue(
      ok({ amendment: sampleDecision({ state: 'revoked' }), block: null, in_force: true, released: 0, refused: 0, cut: 1 }),
    );
    await show(PolicyScreen, '/policy');
    document.querySelector<HTMLElement>('[data-testid="revoke"]')?.click();
    await flushPromises();
    expect(api.policyRevoke).not.toHaveBeenCalled();
    expect(text()).toContain('open connections that only it allowed are cut. Bytes already sent');
    await press('Revoke');
    expect(api.policyRevoke).toHaveBeenCalledWith({ amendment: 'r7k2mqdx-a1' });
  });

  it('shows the file before a decision is written into it, and the difference afterwards', async () => {
    api.amendmentList.mockResolvedValue(ok({ amendments: [sampleDecision({ scope: 'project' })] }));
    api.policyWrite.mockResolvedValue(ok({ ...FILE, text: '# ours\n\n[[egress]]\nhost = "registry.example"\n' }));
    await show(PolicyScreen, '/policy');
    await press('Write to file…');
    expect(api.policyTrust).toHaveBeenCalledWith({ repo: '/home/op/project', expect: null });
    expect(text()).toContain('# ours');
    expect(api.policyWrite).not.toHaveBeenCalled();
    await press('Write it');
    expect(document.querySelector('[aria-label="What was written"]')?.textContent).toContain('host = "registry.example"');
    expect(text()).toContain('is not trusted, so it has no effect yet');
  });

  it('trusts exactly the text that was shown, and shows a text that changed anew', async () => {
    api.amendmentList.mockResolvedValue(ok({ amendments: [] }));
    await show(PolicyScreen, '/policy');
    await press('Show the file…');
    api.policyTrust
      .mockResolvedValueOnce(no('stale', 'it is not as it was shown any more'))
      .mockResolvedValueOnce(ok({ ...FILE, text: '# theirs\n', expect: 'bb' }));
    await press('Trust exactly this text');
    expect(text()).toContain('The file has changed since it was shown.');
    expect(text()).toContain('# theirs');
    api.policyTrust.mockResolvedValueOnce(ok({ ...FILE, expect: 'bb', trusted: true }));
    await press('Trust exactly this text');
    expect(api.policyTrust).toHaveBeenLastCalledWith({ repo: '/home/op/project', expect: 'bb' });
    expect(text()).toContain('Exactly this text is trusted');
  });

  it('explains a destination', async () => {
    api.amendmentList.mockResolvedValue(ok({ amendments: [] }));
    api.policyWhy.mockResolvedValue(ok({ verdict: 'held', layer: null, rule: null, words: 'No rule allows a.example:443' }));
    await show(PolicyScreen, '/policy');
    const box = document.querySelector<HTMLInputElement>('[data-testid="why-destination"]');
    if (box === null) throw new Error('no field');
    box.value = 'a.example:443';
    box.dispatchEvent(new Event('input'));
    await flushPromises();
    document.querySelector('form')?.dispatchEvent(new Event('submit', { cancelable: true }));
    await flushPromises();
    expect(api.policyWhy).toHaveBeenCalledWith({ run: 'r7k2mqdx', repo: null, destination: 'a.example:443' });
    expect(document.querySelector('[data-testid="why-answer"]')?.textContent).toContain('Held: No rule allows a.example:443.');
  });
});

describe('the policy of a run', () => {
  it('stands by layers, with bounds, revision and its own decisions', async () => {
    const others = sampleDecision({ id: 'other000-a1', run_title: 'Another' });
    api.amendmentList.mockResolvedValue(ok({ amendments: [sampleDecision(), others] }));
    await show(PolicyTab, '/run/r7k2mqdx/policy', { run: RUN });
    expect(text()).toContain('Policy in force, revision 4');
    expect(text()).toContain('tcp registry.example:443');
    expect(text()).toContain('Wall time 2 h');
    expect(text()).toContain('Not trusted, so it has no effect.');
    expect(rows().map((row) => row.dataset['amendment'])).toEqual(['r7k2mqdx-a1']);
  });
});
