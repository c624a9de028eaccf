import { describe, expect, it } from 'vitest';
import { emptyForm, faultsOf, isPlainRun, saysMore, startFault, toDraft, toRun } from './form';
import type { OrderForm } from './form';

const NOW = new Date('2026-03-04T15:00:00Z');
function form(changes: Partial<OrderForm> = {}): OrderForm {
  return { ...emptyForm(), command: 'agent -p {prompt}', prompt: 'Fix it', repo: '/home/me/app', ...changes };
}

describe('faultsOf', () => {
  it('finds nothing in what can be sent', () => {
    expect(faultsOf(form())).toEqual({});
    expect(faultsOf(form({ prompt: '', command: 'make' }))).toEqual({});
  });
  it.each([
    [{ command: '' }, 'command'], [{ command: "a 'b" }, 'command'], [{ prompt: ' ' }, 'command'], [{ repo: '' }, 'repo'], [{ repo: 'app' }, 'repo'],
    [{ allow: ['a.example:443', 'b.example'] }, 'allow'], [{ wall: '5' }, 'wall'], [{ memory: '1MiB' }, 'memory'], [{ cpu: '2 cores' }, 'cpu'], [{ disk: '9' }, 'disk'], [{ openFiles: '8' }, 'openFiles'], [{ gate: 'checks' as const }, 'checks'],
    [{ checks: Array.from({ length: 65 }, () => 'x') }, 'checks'], [{ mandatory: true }, 'mandatory'], [{ notBefore: 'soon' }, 'notBefore'],
    [{ attempts: '17' }, 'attempts'], [{ attempts: '2', repeat: 'every' as const, every: '6h' }, 'attempts'], [{ retries: 'x' }, 'retries'],
    [{ repeat: 'every' as const, every: '30s' }, 'every'], [{ repeat: 'calendar' as const, calendar: '* *' }, 'calendar'],
    [{ prompt: 'é'.repeat(70_000) }, 'prompt'],
  ])('puts the fault beside its field: %j', (changes, field) => {
    expect(Object.keys(faultsOf(form(changes)))).toEqual([field]);
  });
});

describe('what is sent', () => {
  it('has defaults where nothing was said', () => {
    expect(toRun(form())).toEqual({
      repo: '/home/me/app', title: null, base: null, allow: [], policy: null,
      bounds: {
        wall_seconds: null, cpu_millicores: null, memory_bytes: null, disk_bytes: null, processes: null, open_files: null, output_bytes: null, hold_seconds: null,
      },
      setup: null, checks: [], terminal: null, unattended: false, accept_weaker: [], argv: ['agent', '-p', '{prompt}'], env: [], proxy: [],
    });
  });
  it('has every bound in its unit, and reads are held where that is asked for', () => {
    const bounds = { wall: '2h', cpu: '1.5', memory: '4GiB', disk: '10GiB', processes: '512', openFiles: '4096', output: '1MiB', hold: '10m' };
    expect(toRun(form({ ...bounds, holdReads: true }))).toMatchObject({
      hold_reads: true,
      bounds: {
        wall_seconds: 7200, cpu_millicores: 1500, memory_bytes: 4 * 1024 ** 3, disk_bytes: 10 * 1024 ** 3, processes: 512, open_files: 4096,
        output_bytes: 1024 ** 2, hold_seconds: 600,
      },
    });
    expect(toRun(form())).not.toHaveProperty('hold_reads');
  });
  it('leaves blank entries out', () => {
    expect(toRun(form({ allow: [' ', 'a.example:443 '], checks: ['', 'make test'], wall: '2h' }))).toMatchObject({
      allow: ['a.example:443'], checks: ['make test'], bounds: { wall_seconds: 7200 },
    });
  });
  it('says of the queue only what was said', () => {
    expect(toDraft(form(), NOW)).toMatchObject({ spec: { hints: { priority: false, retries: 0 }, scope: null, depends_on: [], gate: 'review', prompt: 'Fix it' } });
    expect(toDraft(form({ attempts: '3' }), NOW).attempts).toBe(3);
    expect(toDraft(form({ scope: ['src/**'], mandatory: true, strict: true }), NOW).spec.scope).toEqual({ patterns: ['src/**'], enforcement: 'mandatory', strict: true });
  });
  it('aligns a distance to midnight', () => {
    expect(toDraft(form({ repeat: 'every', every: '6h', missed: 'once' }), NOW).spec.hints?.recurrence).toEqual({
      every_seconds: 21_600, from: '2026-03-04T00:00:00.000Z', missed: 'once',
    });
  });
});

describe('starting now', () => {
  it('is not what a recurring or later order means', () => {
    expect(startFault(form())).toBeNull();
    expect(startFault(form({ repeat: 'calendar' }))).toMatch(/recurring/);
    expect(startFault(form({ notBefore: '2027-01-01T00:00' }))).toMatch(/not to start before/);
  });
  it('makes a plain run where that says all', () => {
    expect(isPlainRun(form({ prompt: '', command: 'make', wall: '2h' }))).toBe(true);
    expect([form(), form({ prompt: '', retries: '2' }), form({ prompt: '', gate: 'checks' })].map(isPlainRun)).toEqual([false, false, false]);
  });
  it('knows what is behind More', () => {
    expect([saysMore(form()), saysMore(form({ wall: '2h' })), saysMore(form({ scope: ['a'] }))]).toEqual([false, true, true]);
  });
});
