/** Whether the feed goes along with a live run, as a pure state machine. */
export type Follow =
  /** The newest row is kept in view. */
  | { mode: 'following'; end: number }
  /** The operator reads; what comes meanwhile is only counted. */
  | { mode: 'holding'; end: number; seen: number };

export type FollowEvent =
  /** The operator scrolled. */
  | { type: 'scrolled'; atEnd: boolean }
  /** The operator went to a row, or chose one. */
  | { type: 'picked' }
  /** The operator asked for the newest. */
  | { type: 'to_end' }
  /** The run's newest event is this one. */
  | { type: 'grew'; end: number };

export function follow(state: Follow, event: FollowEvent): Follow {
  switch (event.type) {
    case 'scrolled':
      return event.atEnd ? following(state) : holding(state);
    case 'picked':
      return holding(state);
    case 'to_end':
      return following(state);
    case 'grew':
      return event.end > state.end ? { ...state, end: event.end } : state;
    default: {
      const never: never = event;
      return never;
    }
  }
}

/** How many events came since the operator left the end. */
export function unseen(state: Follow): number {
  return state.mode === 'holding' ? Math.max(0, state.end - state.seen) : 0;
}

function following(state: Follow): Follow {
  return state.mode === 'following' ? state : { mode: 'following', end: state.end };
}

function holding(state: Follow): Follow {
  return state.mode === 'holding' ? state : { mode: 'holding', end: state.end, seen: state.end };
}
