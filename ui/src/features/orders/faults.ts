// Puts a refusal of the engine beside the field that it is about, where the engine says so.

import type { About, Failure } from '@/ipc/bindings';
import type { Field } from './form';

const FIELDS: Readonly<Record<About, Field>> = {
  repo: 'repo', base: 'base', command: 'command', prompt: 'prompt', allow: 'allow', policy: 'policy', setup: 'setup', checks: 'checks', copy: 'copy',
  accept: 'accept', env: 'envFrom', wall: 'wall', memory: 'memory', cpu: 'cpu', processes: 'processes', disk: 'disk', output: 'output',
  open_files: 'openFiles', scope: 'scope', depends_on: 'dependsOn', retries: 'retries', recurrence: 'repeat', kind: 'kind', class: 'group',
};

/** The field that a refusal is about; absent when it is about the whole, or about what this window has no field for. */
export function fieldOf(failure: Failure): Field | null {
  const { about } = failure;
  if (about && Object.hasOwn(FIELDS, about)) return FIELDS[about];
  // What a machine lacks is known before a run is, and by its code alone.
  return failure.code === 'wall_missing' ? 'accept' : null;
}

/** A refusal as one sentence with what to do. */
export function sentenceOf(failure: Failure): string {
  return failure.hint ? `${failure.message}. ${failure.hint}` : `${failure.message}.`;
}
