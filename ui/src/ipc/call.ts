/**
 * The one door to the engine. Every call answers with a {@link Result} and never throws; callers switch on
 * `failure.code` only.
 */
import { commands } from './bindings';
import type { Failure } from './bindings';

export type Result<T> = { ok: true; value: T } | { ok: false; failure: Failure };

type Answer<T> = { status: 'ok'; data: T } | { status: 'error'; error: unknown };
type Data<A> = A extends { status: 'ok'; data: infer T } ? T : never;
type Commands = typeof commands;

export type Call = {
  [K in keyof Commands]: (...request: Parameters<Commands[K]>) => Promise<Result<Data<Awaited<ReturnType<Commands[K]>>>>>;
};

function isFailure(error: unknown): error is Failure {
  return typeof error === 'object' && error !== null && 'code' in error && 'message' in error;
}

/** What went wrong, as a failure: the desktop side rejects with plain words where a call itself is at fault. */
export function failureOf(error: unknown): Failure {
  if (isFailure(error)) return error;
  if (!('__TAURI_INTERNALS__' in window)) {
    return { code: 'internal', message: 'This page is not inside SDF, so there is no engine behind it', hint: 'Start SDF instead.' };
  }
  const words = error instanceof Error ? error.message : typeof error === 'string' ? error : JSON.stringify(error);
  return {
    code: 'internal',
    message: `The window could not reach its engine: ${words}`,
    hint: 'Try again. If it stays so, quit SDF and start it again; runs go on meanwhile.',
  };
}

/** Runs one command and turns every way of failing into a failure. */
export async function settled<T>(ask: () => Promise<Answer<T>>): Promise<Result<T>> {
  try {
    const answer = await ask();
    return answer.status === 'ok'
      ? { ok: true, value: answer.data }
      : { ok: false, failure: failureOf(answer.error) };
  } catch (error) {
    return { ok: false, failure: failureOf(error) };
  }
}

type Loose = (...request: never[]) => Promise<Answer<unknown>>;

function wrap(all: Commands): Call {
  const wrapped: Record<string, (...request: never[]) => Promise<Result<unknown>>> = {};
  for (const [name, command] of Object.entries(all) as [string, Loose][]) {
    wrapped[name] = (...request) => settled(() => command(...request));
  }
  return wrapped as unknown as Call;
}

export const call: Call = wrap(commands);
