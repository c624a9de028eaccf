// How the view keeps up with a run that moves while it is reviewed. An approval is for exactly what was shown:
// when head, base or policy move, everything is read again and what is new since the head that was looked at
// is shown by itself.

import type { DiffView, Failure } from '@/ipc/bindings';

export type Notice =
  /** The run has other commits than when it was looked at. */
  | 'new_commits'
  /** Only the base branch or the policy moved: the changes are the same. */
  | 'moved';

export interface Flow {
  /** The whole diff; its token is what an approval is for. */
  readonly diff: DiffView | null;
  /** What came since the head that was looked at. */
  readonly fresh: DiffView | null;
  /** The head that the operator looked at before the run moved. */
  readonly seen: string | null;
  readonly showing: 'all' | 'new';
  readonly notice: Notice | null;
  readonly failure: Failure | null;
  /** Why what is new cannot be shown by itself. */
  readonly freshFailure: Failure | null;
  readonly loading: boolean;
}

export type FlowEvent =
  | { readonly is: 'asked' }
  | { readonly is: 'read'; readonly diff: DiffView }
  | { readonly is: 'read_new'; readonly since: string; readonly diff: DiffView }
  | { readonly is: 'no_new'; readonly failure: Failure }
  | { readonly is: 'failed'; readonly failure: Failure }
  | { readonly is: 'show'; readonly what: 'all' | 'new' }
  | { readonly is: 'looked' };

export const START: Flow = {
  diff: null, fresh: null, seen: null, showing: 'all', notice: null, failure: null, freshFailure: null, loading: false,
};

/** The head since which what is new is to be read after this diff; absent when nothing is. */
export function sinceOf(flow: Flow, diff: DiffView): string | null {
  const seen = flow.seen ?? flow.diff?.head ?? null;
  return seen !== null && seen !== diff.head ? seen : null;
}

export function next(flow: Flow, event: FlowEvent): Flow {
  switch (event.is) {
    case 'asked':
      return { ...flow, loading: true, failure: null };
    case 'read': {
      const before = flow.diff;
      const seen = sinceOf(flow, event.diff);
      const moved = before !== null && before.expect !== event.diff.expect;
      const notice = seen !== null ? 'new_commits' : moved ? 'moved' : flow.notice === 'moved' ? 'moved' : null;
      const fresh = flow.fresh?.head === event.diff.head ? flow.fresh : null;
      return { ...flow, diff: event.diff, fresh, seen, notice, showing: fresh ? flow.showing : 'all', failure: null, freshFailure: null, loading: false };
    }
    case 'read_new':
      if (flow.diff?.head !== event.diff.head || flow.seen !== event.since) return flow;
      return { ...flow, fresh: event.diff, showing: 'new' };
    case 'no_new':
      return { ...flow, fresh: null, showing: 'all', freshFailure: event.failure };
    case 'failed':
      return { ...flow, failure: event.failure, loading: false };
    case 'show':
      return event.what === 'new' && !flow.fresh ? flow : { ...flow, showing: event.what };
    case 'looked':
      return { ...flow, seen: null, fresh: null, showing: 'all', notice: null, freshFailure: null };
    default:
      return unknown(event);
  }
}

function unknown(event: never): Flow {
  throw new Error(`no such event: ${JSON.stringify(event)}`);
}

/** What is shown now. */
export function shownOf(flow: Flow): DiffView | null {
  return flow.showing === 'new' ? flow.fresh : flow.diff;
}
