// One card as a state machine: pure, the clock comes in as an argument (milliseconds of a clock that
// only goes forward).
//
// | from | event | to |
// |---|---|---|
// | shown | tick, 500 ms after it was drawn | armed |
// | shown, armed, failed | asked (only when it can be decided) | deciding |
// | deciding | answered | decided |
// | deciding, undoing | refused as already decided | late |
// | deciding | refused as stale | shown, with a note |
// | deciding | refused otherwise | failed |
// | decided | undo asked, within 10 s | undoing |
// | undoing | answered | undone |
// | undoing | refused otherwise | failed |
// | shown, armed, failed, undone | seen with another question | shown, with a note |
// | shown, armed | seen decided | late |
// | decided, late | seen decided, then decidable again | shown, with a note |
//
// A cage that keeps knocking changes figures all the time. Those are drawn at most every two seconds,
// so that it cannot keep a card from ever being armed; what is drawn and what is sent are one view.

import type { BlockView, Decided, Failure } from '@/ipc/bindings';

/** How long after it appeared or changed a card takes no decision. */
export const ARM_MS = 500;
/** How long a decision can be taken back from its card. */
export const UNDO_MS = 10_000;
/** How often figures that only count up are drawn. */
export const FIGURES_MS = 2_000;
/** What a card says when it changed under the operator's eyes. */
export const CHANGED = 'This card has changed since it was drawn. Look at it again and decide again.';

/** What is asked of the engine. */
export type Asked = 'amend' | 'deny';

/** Where a card stands. */
export type Phase =
  /** Drawn a moment ago: takes no decision yet. */
  | { readonly phase: 'shown' }
  /** Takes a decision. */
  | { readonly phase: 'armed' }
  /** A decision is on its way. */
  | { readonly phase: 'deciding'; readonly asked: Asked; readonly askedAt: number }
  /** Decided here. */
  | { readonly phase: 'decided'; readonly decided: Decided; readonly undoUntil: number }
  /** Taking it back is on its way. */
  | { readonly phase: 'undoing'; readonly decided: Decided }
  /** Taken back here. */
  | { readonly phase: 'undone'; readonly decided: Decided }
  /** The engine refused; the card says why. */
  | { readonly phase: 'failed'; readonly failure: Failure }
  /** Somebody else decided, or it was decided when it was first seen. */
  | { readonly phase: 'late'; readonly wasOpen: boolean; readonly words: string | null };

/** A card. */
export type CardState = Phase & {
  /** What is drawn, and what a decision is bound to. */
  readonly view: BlockView;
  /** Newer figures that are not drawn yet. */
  readonly newer: BlockView | null;
  /** When what is drawn was drawn. */
  readonly drawnAt: number;
  /** Counts up with every other question on the card: an open dialog that knows an older one closes. */
  readonly question: number;
  /** A sentence about what happened to the card itself. */
  readonly note: string | null;
};

/** What happens to a card. */
export type CardEvent =
  | { readonly type: 'seen'; readonly view: BlockView }
  | { readonly type: 'drawn' }
  | { readonly type: 'tick' }
  | { readonly type: 'asked'; readonly asked: Asked }
  | { readonly type: 'undo' }
  | { readonly type: 'answered'; readonly decided: Decided }
  | { readonly type: 'refused'; readonly failure: Failure }
  | { readonly type: 'said'; readonly note: string | null };

/** True while a decision on this block has an effect. */
export function isDecidable(view: BlockView): boolean {
  switch (view.state) {
    case 'open':
    case 'gone':
    case 'expired':
      return true;
    case 'denied':
      return view.by === 'unattended';
    case 'amended':
      return false;
    default:
      return view satisfies never;
  }
}

/** A card that appears now. */
export function appear(view: BlockView, now: number): CardState {
  const common = { view, newer: null, drawnAt: now, question: 0, note: null };
  return isDecidable(view)
    ? { phase: 'shown', ...common }
    : { phase: 'late', wasOpen: false, words: null, ...common };
}

/** True when the card takes a decision now. */
export function canDecide(state: CardState, now: number): boolean {
  return hasButtons(state) && now >= state.drawnAt + ARM_MS;
}

/** True when the card shows its buttons. */
export function hasButtons(state: CardState): boolean {
  switch (state.phase) {
    case 'shown':
    case 'armed':
    case 'failed':
    case 'undone':
      return isDecidable(state.view);
    case 'deciding':
    case 'undoing':
    case 'decided':
    case 'late':
      return false;
    default:
      return state satisfies never;
  }
}

/** True when the decision made here can be taken back now. */
export function canUndo(state: CardState, now: number): boolean {
  return state.phase === 'decided' && now < state.undoUntil;
}

/** Whole seconds in which it can still be taken back. */
export function undoSeconds(state: CardState, now: number): number {
  return state.phase === 'decided' ? Math.max(0, Math.ceil((state.undoUntil - now) / 1000)) : 0;
}

/** When the next `tick` is due; nothing when none is. */
export function due(state: CardState, now: number): number | null {
  const times: number[] = [];
  if (state.phase === 'shown') times.push(state.drawnAt + ARM_MS);
  if (state.newer !== null && takesFigures(state)) times.push(state.drawnAt + FIGURES_MS);
  if (state.phase === 'decided' && now < state.undoUntil) {
    times.push(state.undoUntil - (undoSeconds(state, now) - 1) * 1000);
  } else if (hasButtons(state) && now < state.drawnAt + ARM_MS) {
    times.push(state.drawnAt + ARM_MS);
  }
  return times.length === 0 ? null : Math.min(...times);
}

/** The card after an event. Events that mean nothing in a phase leave it as it is. */
export function next(state: CardState, event: CardEvent, now: number): CardState {
  switch (event.type) {
    case 'seen':
      return seen(state, event.view, now);
    case 'drawn':
      // It came into sight again: what is under the pointer now was not there a moment ago.
      return state.phase === 'armed' ? draw(state, state.view, now) : { ...state, drawnAt: now };
    case 'tick':
      return tick(state, now);
    case 'asked':
      if (!canDecide(state, now)) return state;
      return { ...common(state), note: null, phase: 'deciding', asked: event.asked, askedAt: now };
    case 'undo':
      if (state.phase !== 'decided' || now >= state.undoUntil) return state;
      return { ...common(state), phase: 'undoing', decided: state.decided };
    case 'answered':
      return answered(state, event.decided, now);
    case 'refused':
      return refused(state, event.failure, now);
    case 'said':
      return { ...state, note: event.note };
    default:
      return event satisfies never;
  }
}

function answered(state: CardState, decided: Decided, now: number): CardState {
  if (state.phase === 'deciding') {
    // From when it was asked, not from when the answer came: never longer than the engine's own ten.
    return { ...common(state), note: null, phase: 'decided', decided, undoUntil: state.askedAt + UNDO_MS };
  }
  if (state.phase === 'undoing') {
    return { ...common(state), drawnAt: now, note: null, phase: 'undone', decided };
  }
  return state;
}

function refused(state: CardState, failure: Failure, now: number): CardState {
  if (state.phase !== 'deciding' && state.phase !== 'undoing') return state;
  const rest = { ...common(state), drawnAt: now };
  if (failure.code === 'already_decided') {
    return { ...rest, phase: 'late', wasOpen: true, words: failure.message };
  }
  if (failure.code === 'stale' && state.phase === 'deciding') {
    return { ...rest, phase: 'shown', question: state.question + 1, note: CHANGED };
  }
  return { ...rest, phase: 'failed', failure };
}

function tick(state: CardState, now: number): CardState {
  if (state.newer !== null && takesFigures(state) && now >= state.drawnAt + FIGURES_MS) {
    return draw(state, state.newer, now);
  }
  if (state.phase === 'shown' && now >= state.drawnAt + ARM_MS) {
    return { ...common(state), phase: 'armed' };
  }
  return state;
}

function seen(state: CardState, view: BlockView, now: number): CardState {
  switch (state.phase) {
    case 'deciding':
    case 'undoing':
      // The answer is on its way and says more.
      return { ...state, newer: view };
    case 'decided':
    case 'late':
      if (!isDecidable(view)) return { ...state, view };
      return isLater(state.view, view) ? afresh(state, view, now) : state;
    case 'undone':
      if (view.state === 'open' && state.view.state !== 'open') return afresh(state, view, now);
      return { ...state, view, drawnAt: view.expect === state.view.expect ? state.drawnAt : now };
    case 'failed':
      return isDecidable(view) ? fresher(state, view, now) : { ...state, view, newer: null };
    case 'shown':
    case 'armed':
      if (isDecidable(view)) return fresher(state, view, now);
      return { ...common(state), view, newer: null, drawnAt: now, phase: 'late', wasOpen: true, words: null };
    default:
      return state satisfies never;
  }
}

/**
 * A look that was under way when it was decided still says "open". What comes after a decision that was
 * taken back is "gone", or open again with newer holds.
 */
function isLater(shown: BlockView, view: BlockView): boolean {
  return !isDecidable(shown) && (view.state === 'gone' || view.last_hold > shown.last_hold);
}

/** The same question keeps its card and counts on; another one is drawn at once and says so. */
function fresher(state: CardState, view: BlockView, now: number): CardState {
  if (!isSameQuestion(state.view, view)) return afresh(state, view, now);
  if (isSameFigures(state.view, view)) return { ...state, view, newer: null };
  if (now < state.drawnAt + FIGURES_MS) return { ...state, newer: view };
  return draw(state, view, now);
}

function afresh(state: CardState, view: BlockView, now: number): CardState {
  const rest = { ...common(state), view, newer: null, drawnAt: now, question: state.question + 1 };
  return { ...rest, phase: 'shown', note: changeWords(state.view, view) };
}

/** Newer figures: drawn, and what is drawn has to settle again. A failure stays on the card. */
function draw(state: CardState, view: BlockView, now: number): CardState {
  const rest = { ...common(state), view, newer: null, drawnAt: now };
  return state.phase === 'failed' ? { ...rest, phase: 'failed', failure: state.failure } : { ...rest, phase: 'shown' };
}

function changeWords(from: BlockView, to: BlockView): string | null {
  if (to.state === 'gone' && (from.state === 'amended' || from.state === 'denied')) {
    return 'The decision about it was taken back.';
  }
  // That its processes ended is said by the card's own words.
  return to.state === 'gone' || to.state === 'expired' ? null : CHANGED;
}

function takesFigures(state: CardState): boolean {
  return state.phase === 'shown' || state.phase === 'armed' || state.phase === 'failed';
}

function common(state: CardState) {
  const { view, newer, drawnAt, question, note } = state;
  return { view, newer, drawnAt, question, note };
}

/** The same question, apart from figures that count up. */
export function isSameQuestion(a: BlockView, b: BlockView): boolean {
  return questionOf(a) === questionOf(b);
}

function questionOf(view: BlockView): string {
  // "Once" comes and goes with what waits, and its words count it.
  const lasting = view.candidates.filter((candidate) => candidate.scope !== 'once');
  const choices = lasting.map(({ number, words, needs_confirmation }) => [number, words, needs_confirmation]);
  const places = view.file ? [view.file.folder, view.file.paths] : null;
  const limit = view.breach?.limit ?? null;
  return JSON.stringify([view.id, view.subject, view.state, view.why, view.revision, view.address_vetted, places, limit, choices]);
}

function isSameFigures(a: BlockView, b: BlockView): boolean {
  return (
    a.expect === b.expect &&
    a.waiting === b.waiting &&
    a.seen === b.seen &&
    JSON.stringify(a.holders) === JSON.stringify(b.holders)
  );
}
