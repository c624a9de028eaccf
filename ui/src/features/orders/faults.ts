// Puts a refusal of the engine beside the field that it is about, where its code says so.

import type { Failure } from '@/ipc/bindings';
import type { Field } from './form';

/** The field that a refusal is about; absent when it is about the whole. */
export function fieldOf(failure: Failure): Field | null {
  switch (failure.code) {
    case 'bad_repository': return 'repo';
    case 'bad_policy': return failure.message.includes('--allow') ? 'allow' : 'policy';
    case 'wall_missing': return 'accept';
    case 'not_enforced': return 'policy';
    case 'usage': return failure.message.includes('--accept-weaker') ? 'accept' : null;
    case 'bad_input':
    case 'not_found':
    case 'stale':
    case 'already_decided':
    case 'conflict':
    case 'busy':
    case 'disk_full':
    case 'environment':
    case 'internal': return null;
    default: return unknown(failure.code);
  }
}

function unknown(_: never): Field | null {
  return null;
}

/** A refusal as one sentence with what to do. */
export function sentenceOf(failure: Failure): string {
  return failure.hint ? `${failure.message}. ${failure.hint}` : `${failure.message}.`;
}
