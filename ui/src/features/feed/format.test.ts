import { describe, expect, it } from 'vitest';
import type { Event, EventKind } from '@/ipc/bindings';
import { AMENDMENT, BLOCK, FILE, SUBJECT, atBound, event } from './events.fixture';
import { KIND_WORDS } from './filter';
import { formatEvent } from './format';

const shown = (kind: EventKind): [string, string, string] => {
  const { tone, word, text } = formatEvent(event(kind));
  return [tone, word, text];
};

const CASES: Record<string, [EventKind, [string, string, string]][]> = {
  state: [
    [{ kind: 'state', to: { state: 'provisioning' } }, ['busy', 'state', 'the run is being prepared']],
    [{ kind: 'state', to: { state: 'running', step: 'agent' } }, ['busy', 'state', 'the run is at step agent']],
    [
      { kind: 'state', to: { state: 'failed', reason: { reason: 'agent', message: 'it ended with exit code 3' } } },
      ['bad', 'state', 'the run failed: it ended with exit code 3'],
    ],
    [
      { kind: 'state', to: { state: 'merged', commit: '0123456789abcdef' } },
      ['good', 'state', 'the run was merged as 0123456789'],
    ],
  ],
  progress: [[{ kind: 'progress', stage: 'worktree', message: 'the worktree is made' }, ['idle', 'worktree', 'the worktree is made']]],
  warning: [[{ kind: 'warning', message: 'the base is old' }, ['warn', 'warning', 'the base is old']]],
  probe: [
    [{ kind: 'probe', wall: 'network', holds: true, detail: 'refused' }, ['good', 'wall', 'network holds: refused']],
    [{ kind: 'probe', wall: 'cgroup', holds: false, detail: 'no' }, ['bad', 'wall', 'control groups does not hold: no']],
  ],
  step_started: [
    [{ kind: 'step_started', what: 'agent', argv: ['sh', '-c', 'echo hi'] }, ['busy', 'starts', "sh -c 'echo hi'"]],
    [{ kind: 'step_started', what: 'harvest', argv: [] }, ['busy', 'starts', 'harvest']],
  ],
  step_ended: [
    [{ kind: 'step_ended', millis: 3_000, result: 'succeeded' }, ['good', 'ended', 'the step ended well after 3 s']],
    [{ kind: 'step_ended', millis: 3_000, result: 'exited', code: 7 }, ['bad', 'ended', 'the step ended with exit code 7 after 3 s']],
    [{ kind: 'step_ended', millis: 1, result: 'skipped', why: 'the agent failed' }, ['idle', 'ended', 'the step was not run: the agent failed']],
  ],
  shell_opened: [
    [
      { kind: 'shell_opened', shell: 's1', by: 'ada', argv: ['bash'], terminal: true },
      ['busy', 'shell', 'opened by ada on a terminal: bash'],
    ],
  ],
  shell_ended: [
    [
      { kind: 'shell_ended', shell: 's1', millis: 500, result: 'signalled', signal: 9 },
      ['bad', 'shell', 'the shell was ended by signal 9 after 500 ms'],
    ],
  ],
  port_opened: [
    [
      { kind: 'port_opened', port: 3000, to: 3001, by: 'ada', listening: false },
      ['busy', 'port', '3000 published by ada at http://127.0.0.1:3001/; nothing listens there yet'],
    ],
  ],
  port_closed: [
    [
      { kind: 'port_closed', port: 3000, to: 3001, connections: 2, sent: 10, received: 20 },
      ['idle', 'port', '3000 closed: 2 connections, sent 10 B, received 20 B'],
    ],
  ],
  output: [
    [{ kind: 'output', stream: 'stdout', text: 'hello\tworld\n' }, ['idle', 'out', 'hello    world']],
    [{ kind: 'output', stream: 'stderr', text: 'part', continued: true }, ['idle', 'err', 'part …continues']],
    [{ kind: 'output', stream: 'terminal', text: '\u001b[31mred\u001b[0m' }, ['idle', 'tty', 'red']],
  ],
  name_looked_up: [
    [{ kind: 'name_looked_up', name: 'registry.example' }, ['idle', 'name', 'registry.example was looked up; nothing left the cage']],
  ],
  egress: [
    [
      { kind: 'egress', subject: SUBJECT, count: 37, verdict: 'allowed', rule: 'order:2' },
      ['good', 'connect', 'registry.example:443 ×37 (allowed by order:2)'],
    ],
    [
      { kind: 'egress', subject: SUBJECT, count: 1, verdict: 'held', block: 'r7k2mqdx-b1', hold: 1 },
      ['accent', 'held', 'registry.example:443 waits under r7k2mqdx-b1'],
    ],
    [
      { kind: 'egress', subject: { ...SUBJECT, protocol: 'udp' }, count: 2, verdict: 'refused', by: 'floor', why: 'never' },
      ['bad', 'refused', 'udp registry.example:443 ×2: never'],
    ],
    [
      { kind: 'egress', subject: { ...SUBJECT, host: { address: '2001:db8::1' } }, count: 1, verdict: 'unreachable', why: 'no route' },
      ['warn', 'no answer', '[2001:db8::1]:443: no route'],
    ],
  ],
  file: [
    [
      { kind: 'file', subject: FILE, count: 3, verdict: 'allowed', rule: 'order:2' },
      ['good', 'file', 'write /srv/data/a.txt ×3 (allowed by order:2)'],
    ],
    [
      { kind: 'file', subject: FILE, count: 1, verdict: 'held', block: 'r7k2mqdx-b1', hold: 1 },
      ['accent', 'held', 'write /srv/data/a.txt waits under r7k2mqdx-b1'],
    ],
    [
      { kind: 'file', subject: { ...FILE, access: 'read' }, count: 1, verdict: 'refused', by: 'floor', why: 'never' },
      ['bad', 'refused', 'read /srv/data/a.txt: never'],
    ],
    [
      { kind: 'file', subject: FILE, count: 1, verdict: 'unreachable', why: 'it is gone' },
      ['warn', 'not shown', 'write /srv/data/a.txt: it is gone'],
    ],
  ],
  exec: [
    [{ kind: 'exec', program: '/usr/bin/cc', cwd: '/w', count: 12 }, ['idle', 'runs', '/usr/bin/cc ×12']],
  ],
  exit: [
    [{ kind: 'exit', program: '/usr/bin/cc', code: 0, millis: 2_000, count: 1 }, ['idle', 'exit', '/usr/bin/cc ended well after 2 s']],
    [{ kind: 'exit', program: '/usr/bin/cc', code: 1, millis: 2_000, count: 2 }, ['warn', 'exit', '/usr/bin/cc ×2 ended with code 1 after 2 s']],
    [{ kind: 'exit', signal: 9, millis: 500, count: 1 }, ['warn', 'exit', 'a program was ended by signal 9 after 500 ms']],
  ],
  connection_closed: [
    [
      { kind: 'connection_closed', subject: SUBJECT, sent: 2_048, received: 10, millis: 1_000, cut: false },
      ['idle', 'closed', 'registry.example:443: sent 2.0 KiB, received 10 B, open 1 s'],
    ],
    [
      { kind: 'connection_closed', subject: SUBJECT, sent: 0, received: 0, millis: 1_000, cut: true },
      ['warn', 'cut', 'registry.example:443: cut by a decision; sent 0 B, received 0 B, open 1 s'],
    ],
  ],
  block: [
    [{ kind: 'block', block: BLOCK }, ['accent', 'block', 'registry.example:443 is held, 2 actions waiting: no rule allows it']],
    [
      {
        kind: 'block',
        block: {
          ...BLOCK,
          subject: FILE,
          file: { folder: '/srv/data', paths: [FILE.path], different: 12, target: 'absent', call: 'openat', once: 2, alone: false },
        },
      },
      ['accent', 'block', 'write 12 paths in /srv/data is held, 2 actions waiting: no rule allows it'],
    ],
    [
      { kind: 'block', block: atBound('memory', { state: 'open' }) },
      ['accent', 'block', 'the run is paused at its bound of memory, 4.2 GiB of 4 GiB'],
    ],
    [
      { kind: 'block', block: atBound('memory', { state: 'amended', amendment: 'r7k2mqdx-a1' }) },
      ['good', 'block', 'bound of memory was raised by r7k2mqdx-a1'],
    ],
    [
      { kind: 'block', block: atBound('memory', { state: 'denied', by: 'operator', reason: 'too much' }) },
      ['bad', 'block', 'bound of memory was not raised, the run is stopped: too much'],
    ],
    [
      { kind: 'block', block: atBound('memory', { state: 'expired' }) },
      ['warn', 'block', 'bound of memory: nobody decided in time, the run is stopped'],
    ],
    [
      { kind: 'block', block: atBound('memory', { state: 'gone' }) },
      ['idle', 'block', 'bound of memory: the run does not wait there any more'],
    ],
    [
      { kind: 'block', block: atBound('processes', { state: 'gone' }) },
      ['warn', 'block', 'bound of processes, 512 of 512 processes: more is refused to the run, which goes on'],
    ],
    [
      { kind: 'block', block: atBound('processes', { state: 'amended', amendment: 'r7k2mqdx-a2' }) },
      ['good', 'block', 'bound of processes was raised for later runs by r7k2mqdx-a2'],
    ],
    [
      { kind: 'block', block: { ...BLOCK, state: 'expired' } },
      ['warn', 'block', 'registry.example:443: nobody decided in time'],
    ],
    [
      { kind: 'block', block: { ...BLOCK, state: 'denied', by: 'operator', reason: 'no' } },
      ['bad', 'block', 'registry.example:443 was refused: no'],
    ],
  ],
  amendment: [
    [
      { kind: 'amendment', amendment: AMENDMENT },
      ['good', 'amended', 'in force: Let this run connect to registry.example:443 until it ends'],
    ],
    [
      { kind: 'amendment', amendment: { ...AMENDMENT, state: 'revoked', decision: 'deny', reason: '' } },
      ['warn', 'denial', 'revoked: Let this run connect to registry.example:443 until it ends'],
    ],
  ],
  policy_applied: [
    [
      { kind: 'policy_applied', revision: 3, released: 2, refused: 0, cut: 1 },
      ['idle', 'policy', 'revision 3 is in force, 2 actions let go, 1 connection cut'],
    ],
  ],
  bound: [
    [{ kind: 'bound', bound: 'open_files', figure: '64', limit: '64', reached: true }, ['bad', 'bound', 'reached: open files, 64 of 64']],
    [{ kind: 'bound', bound: 'memory', figure: '2 GiB', limit: '2 GiB', reached: true }, ['bad', 'bound', 'reached: memory, 2 GiB of 2 GiB']],
    [{ kind: 'bound', bound: 'wall', figure: '9 min', limit: '10 min', reached: false }, ['warn', 'bound', 'near: wall time, 9 min of 10 min']],
  ],
  sample: [
    [
      { kind: 'sample', cpu_millicores: null, memory_bytes: null, processes: null, disk_bytes: null },
      ['idle', 'uses', 'nothing could be measured'],
    ],
    [
      { kind: 'sample', cpu_millicores: 250, memory_bytes: 2097152, processes: 3, disk_bytes: null },
      ['idle', 'uses', '0.25 processors, memory 2.0 MiB, 3 processes'],
    ],
  ],
  agent: [
    [{ kind: 'agent', said: 'message', text: 'I look\u001b[2J at it' }, ['accent', 'says', 'I look␛[2J at it']],
    [
      { kind: 'agent', said: 'tool_started', call: 'c1', tool: 'bash', arguments: '{"command":"ls"}' },
      ['busy', 'calls', 'bash {"command":"ls"}'],
    ],
    [
      { kind: 'agent', said: 'usage', total: true, input: 1200, output: 30, cached: 0, cost_microusd: 12500 },
      ['idle', 'used', '1,200 tokens read, 0 from a cache, 30 written, $0.0125'],
    ],
    [{ kind: 'agent', said: 'ended', outcome: 'lost', why: '' }, ['bad', 'agent', 'the agent is gone without saying how it ended']],
  ],
  commits: [
    [
      { kind: 'commits', head: '0123456789abcdef', count: 2, finished_by_us: true },
      ['good', 'commits', '2 commits, tip 0123456789; the last one holds what the agent had left uncommitted'],
    ],
  ],
  gap: [
    [
      { kind: 'gap', from: 1, to: 12_400, count: 12_400, reason: 'the byte budget of stored events' },
      ['warn', 'dropped', '12,400 events dropped by retention, output first: the byte budget of stored events'],
    ],
  ],
};

describe('formatEvent', () => {
  for (const [kind, cases] of Object.entries(CASES)) {
    it(`says what ${kind} means`, () => {
      for (const [given, said] of cases) expect(shown(given)).toEqual(said);
    });
  }

  it('has a case here, and a word in the filter, for every kind', () => {
    expect(Object.keys(CASES).sort()).toEqual(Object.keys(KIND_WORDS).sort());
  });

  it('shows a kind that it does not know by its tag and its JSON', () => {
    const strange = { ...event({ kind: 'warning', message: '' }), kind: 'teleported', to: '\u202emars' } as unknown as Event;
    const view = formatEvent(strange);
    expect(view.word).toBe('teleported');
    expect(view.text).toContain('"to":"⟦U+202E⟧mars"');
  });

  it('shows a verdict and a state that it does not know', () => {
    const egress = { kind: 'egress', subject: SUBJECT, count: 1, verdict: 'teleported' } as unknown as EventKind;
    expect(shown(egress)[2]).toContain('"verdict":"teleported"');
    const state = { kind: 'state', to: { state: 'hovering' } } as unknown as EventKind;
    expect(shown(state)).toEqual(['warn', 'state', 'the run {"state":"hovering"}']);
  });

  it('leaves no control, direction or invisible character of a run in any text', () => {
    const evil = 'a\u001b]0;x\u0007\u202eb\u200bc\u0000d\u0085e<img src=x>';
    const kinds: EventKind[] = [
      { kind: 'progress', stage: evil, message: evil },
      { kind: 'warning', message: evil },
      { kind: 'output', stream: 'stdout', text: evil },
      { kind: 'output', stream: 'terminal', text: `\u001b[1m${evil}\u001b[2J` },
      { kind: 'step_started', what: 'agent', argv: [evil, evil] },
      { kind: 'step_ended', millis: 1, result: 'not_started', why: evil },
      { kind: 'shell_opened', shell: 's', by: evil, argv: [evil], terminal: false },
      { kind: 'port_opened', port: 1, to: 2, by: evil, listening: true },
      { kind: 'name_looked_up', name: evil },
      { kind: 'egress', subject: { ...SUBJECT, host: { name: evil } }, count: 1, verdict: 'refused', by: 'floor', why: evil },
      { kind: 'block', block: { ...BLOCK, why: evil } },
      { kind: 'block', block: atBound('memory', { state: 'denied', by: 'operator', reason: evil }) },
      { kind: 'block', block: atBound(evil as 'memory', { state: 'gone' }) },
      { kind: 'file', subject: { ...FILE, path: evil }, count: 1, verdict: 'refused', by: 'floor', why: evil },
      { kind: 'exec', program: evil, cwd: evil, count: 1 },
      { kind: 'exit', program: evil, code: 1, millis: 1, count: 1 },
      { kind: 'amendment', amendment: { ...AMENDMENT, words: evil } },
      { kind: 'bound', bound: evil, figure: evil, limit: evil, reached: true },
      { kind: 'commits', head: evil, count: 1, finished_by_us: false },
      { kind: 'gap', from: 1, to: 2, count: 2, reason: evil },
      { kind: 'probe', wall: evil as 'network', holds: true, detail: evil },
      { kind: 'state', to: { state: 'discarded', snapshot: evil } },
    ];
    for (const kind of kinds) {
      const view = formatEvent(event(kind, 1, { step: evil }));
      const all = [view.word, view.text, view.step, ...(view.stretches ?? []).flatMap((one) => [one.text, one.style])];
       
      for (const text of all) expect(text).not.toMatch(/[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e]/);
    }
  });

  it('cuts what is too long for a row', () => {
    const long = formatEvent(event({ kind: 'warning', message: 'x'.repeat(1_000_000) }));
    expect(long.text.length).toBeLessThanOrEqual(400);
    expect(long.text.endsWith('…')).toBe(true);
  });
});
