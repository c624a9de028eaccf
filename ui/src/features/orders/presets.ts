// Command lines for agents that were found. Each runs without a terminal and takes the prompt as an argument.

import type { AgentView } from '@/ipc/bindings';

const ARGUMENTS: Readonly<Record<string, readonly string[]>> = {
  claude: ['-p', '--output-format', 'stream-json', '--verbose', '--permission-mode', 'bypassPermissions', '{prompt}'],
  codex: ['exec', '--json', '-s', 'danger-full-access', '{prompt}'],
  opencode: ['run', '--pure', '--format', 'json', '{prompt}'],
  gemini: ['-p', '{prompt}', '-o', 'stream-json', '--yolo', '--skip-trust'],
  qwen: ['{prompt}', '-o', 'stream-json', '--yolo'],
  pi: ['-p', '--mode', 'json', '{prompt}'],
  cline: ['--json', '{prompt}'],
  mini: ['-y', '--exit-immediately', '-t', '{prompt}'],
  aider: ['--message', '{prompt}', '--yes-always', '--no-pretty', '--no-check-update', '--analytics-disable'],
};

/** The last part of a path, without an ending. */
function programOf(program: string): string {
  return (program.split(/[\\/]/).at(-1) ?? '').replace(/\.(exe|cmd)$/i, '');
}

/** A command line for an agent; absent when it was not found. An agent that is not known gets its prompt as the only argument. */
export function presetOf(agent: AgentView): readonly string[] | null {
  if (agent.path === null) return null;
  return [agent.path, ...(ARGUMENTS[programOf(agent.program)] ?? ['{prompt}'])];
}
