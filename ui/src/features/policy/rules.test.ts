import { describe, expect, it } from 'vitest';
import { samplePolicy, sampleRule } from './policy.fixture';
import { boundsWords, byLayer, fileWords, ruleWords, sourceWords, whyWords } from './rules';

describe('a policy in words', () => {
  it('stands layer by layer, empty layers too', () => {
    const layers = byLayer(samplePolicy());
    expect(layers.map(({ layer, rows }) => [layer, rows.length])).toEqual([
      ['floor', 0],
      ['profile', 0],
      ['project', 1],
      ['order', 1],
      ['amendment', 2],
    ]);
    const [allowed, denied] = layers[4]?.rows ?? [];
    expect(allowed).toMatchObject({ kind: 'allow', words: 'tcp registry.example:443' });
    expect(denied).toMatchObject({ kind: 'deny', words: 'tcp [2001:db8::1]:22: no ssh', amendment: 'r7k2mqdx-a2' });
    expect(layers[2]?.rows[0]).toMatchObject({ kind: 'read', words: '~/.cargo', source: 'policy.toml line 4' });
    const keys = layers.flatMap(({ rows }) => rows.map((row) => row.key));
    expect(new Set(keys).size).toBe(keys.length);
  });

  it('lists the bounds that were raised', () => {
    const origin = { id: 'amendment:r7k2mqdx-a3', layer: 'amendment', source: 'amended by you', amendment: 'r7k2mqdx-a3' } as const;
    const layers = byLayer({ ...samplePolicy(), bounds: [{ origin, bound: 'memory', limit: 6 * 2 ** 30 }] });
    expect(layers[4]?.rows.at(-1)).toMatchObject({ kind: 'raise', words: 'memory to 6 GiB', amendment: 'r7k2mqdx-a3' });
  });

  it('writes a rule as the command line does', () => {
    expect(ruleWords(sampleRule('order', { host: { one_label_under: 'example.com' } }))).toBe('tcp *.example.com:443');
    expect(ruleWords(sampleRule('order', { host: { any_depth_under: 'example.com' } }))).toBe('tcp **.example.com:443');
    const once = sampleRule('amendment', {
      host: { address: '10.0.0.0/8' },
      protocol: 'udp',
      resolves_to: '10.0.0.4/32',
      expires: '2026-02-01T00:00:00Z',
      use: 'holds',
    } as never);
    expect(ruleWords(once)).toMatch(/^udp 10\.0\.0\.0\/8:443 at 10\.0\.0\.4\/32 once until /);
  });

  it('shows hidden characters of what others wrote as marks', () => {
    const origin = { id: 'x', layer: 'project', source: 'a\u202eb', reason: 'c\nd' } as const;
    expect(sourceWords(origin)).not.toMatch(/[\u202e\n]/);
  });

  it('names the bounds that are set', () => {
    const none = { wall_seconds: null, memory_bytes: null, processes: null, output_bytes: null };
    expect(boundsWords(none)).toEqual(['Those of the engine']);
    expect(boundsWords({ ...none, wall_seconds: 7200, memory_bytes: 4 * 2 ** 30, hold_seconds: 60, cpu_millicores: 2500, disk_bytes: 2 ** 30, open_files: 4096 })).toEqual([
      'Wall time 2 h',
      'Memory 4.0 GiB',
      '2.5 processors',
      'Disk 1.0 GiB',
      '4,096 open files of each process',
      '1 min for an answer to what is held',
    ]);
  });

  it('says how the policy file stands', () => {
    expect(fileWords('changed')).toBe('Changed since it was trusted, so it has no effect.');
    expect(fileWords('odd\u202e')).toContain('U+202E');
  });

  it('explains a verdict', () => {
    expect(whyWords({ verdict: 'held', layer: null, rule: null, words: 'No rule allows a.example:443' })).toEqual([
      'Held: No rule allows a.example:443.',
    ]);
    expect(whyWords({ verdict: 'allowed', layer: 'order', rule: 'order:2', words: 'Allowed by a rule.' })).toEqual([
      'Allowed: Allowed by a rule.',
      'Decided by order:2 from the work order.',
    ]);
  });
});
