import { describe, expect, it } from 'vitest';
import { next, shownOf, sinceOf, START } from './flow';
import { sampleDiff } from './sample.fixture';

const first = sampleDiff({ expect: 'e1', head: 'h1' });
const second = sampleDiff({ expect: 'e2', head: 'h2' });
const fresh = sampleDiff({ expect: 'e2', head: 'h2', files: [] });
const seen = next(START, { is: 'read', diff: first });

describe('a run that moves while it is reviewed', () => {
  it('shows what is new since the head that was looked at', () => {
    expect(sinceOf(seen, second)).toBe('h1');
    const moved = next(seen, { is: 'read', diff: second });
    expect(moved).toMatchObject({ notice: 'new_commits', seen: 'h1', showing: 'all' });
    const shown = next(moved, { is: 'read_new', since: 'h1', diff: fresh });
    expect(shownOf(shown)).toBe(fresh);
    expect(shownOf(next(shown, { is: 'show', what: 'all' }))).toBe(second);
  });

  it('keeps the head that was looked at over a second move', () => {
    const moved = next(seen, { is: 'read', diff: second });
    const third = sampleDiff({ expect: 'e3', head: 'h3' });
    expect(sinceOf(moved, third)).toBe('h1');
    expect(next(moved, { is: 'read', diff: third })).toMatchObject({ seen: 'h1', fresh: null });
  });

  it('is up to date again once looked at', () => {
    const looked = next(next(seen, { is: 'read', diff: second }), { is: 'looked' });
    expect(looked).toMatchObject({ notice: null, seen: null, showing: 'all' });
    expect(sinceOf(looked, second)).toBeNull();
  });

  it('says so when only base or policy moved', () => {
    const moved = next(seen, { is: 'read', diff: sampleDiff({ expect: 'e9', head: 'h1' }) });
    expect(moved).toMatchObject({ notice: 'moved', seen: null });
  });

  it('says nothing when nothing moved', () => {
    expect(next(seen, { is: 'read', diff: first }).notice).toBeNull();
  });

  it('falls back to all of it when what is new cannot be told', () => {
    const moved = next(next(seen, { is: 'read', diff: second }), { is: 'no_new', failure: { code: 'not_found', message: 'no such commit' } });
    expect(shownOf(moved)).toBe(second);
    expect(next(moved, { is: 'show', what: 'new' }).showing).toBe('all');
  });

  it('drops an answer that is late', () => {
    expect(next(seen, { is: 'read_new', since: 'h0', diff: fresh })).toBe(seen);
  });

  it('keeps what was shown when reading fails', () => {
    const failed = next(seen, { is: 'failed', failure: { code: 'busy', message: 'busy' } });
    expect(failed.diff).toBe(first);
  });
});
