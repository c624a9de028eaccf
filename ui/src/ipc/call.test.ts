import { clearMocks, mockIPC } from '@tauri-apps/api/mocks';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { app, onNavigate } from './app';
import { call, failureOf, settled } from './call';

afterEach(() => clearMocks());

describe('calls', () => {
  it('give the value, and what was asked reaches the engine', async () => {
    mockIPC((name, args) => ({ runs: [], cursor: `${name} ${JSON.stringify(args)}` }));
    expect(await call.runList({ limit: 5 })).toEqual({ ok: true, value: { runs: [], cursor: 'run_list {"request":{"limit":5}}' } });
  });
  it('give a typed failure as it is', async () => {
    mockIPC(() => Promise.reject({ code: 'busy', message: 'A newer SDF wrote this', hint: null }));
    expect(await call.runShow({ run: 'r' })).toEqual({ ok: false, failure: { code: 'busy', message: 'A newer SDF wrote this', hint: null } });
  });
  it('turn plain words, errors and a missing desktop into an internal failure', async () => {
    mockIPC(() => Promise.reject('command run_show not found'));
    expect(await call.runShow({ run: 'r' })).toMatchObject({ ok: false, failure: { code: 'internal' } });
    expect(failureOf(new Error('gone')).message).toContain('gone');
    clearMocks();
    Reflect.deleteProperty(window, '__TAURI_INTERNALS__');
    expect(await call.runShow({ run: 'r' })).toMatchObject({ ok: false, failure: { code: 'internal', message: 'This page is not inside SDF, so there is no engine behind it' } });
    expect(await app.info()).toMatchObject({ ok: false, failure: { code: 'internal' } });
    expect(await settled(() => Promise.reject(new TypeError('x')))).toMatchObject({ ok: false });
  });
  it('pass the desktop its own requests', async () => {
    mockIPC((name, args) => (name === 'app_quit' && JSON.stringify(args) === '{"request":{"runs":"keep"}}' ? {} : Promise.reject('no')));
    expect(await app.quit({ runs: 'keep' })).toEqual({ ok: true, value: {} });
  });
  it('do not fail where nobody sends anybody anywhere', async () => {
    clearMocks();
    vi.spyOn(console, 'warn').mockReturnValue();
    expect(typeof (await onNavigate(() => undefined))).toBe('function');
  });
});
