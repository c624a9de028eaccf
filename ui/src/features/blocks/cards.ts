// The cards in sight and what is being decided about them. State lives here and not in the components,
// because a long list takes cards out of the page while a decision about them is on its way.
//
// Nothing here makes a rule by itself: a decision is sent by `amend` and `deny` only, and only for what
// is drawn and has settled.

import { defineStore } from 'pinia';
import { computed, shallowReactive, shallowRef } from 'vue';
import type { BlockId, BlockView, Decided, Failure } from '@/ipc/bindings';
import type { Result } from '@/ipc/call';
import { call } from '@/ipc/call';
import { visibleText } from '@/lib/text';
import { stopsRun } from './bounds';
import { numbered } from './candidates';
import { ARM_MS, appear, canDecide, canUndo, due, hasButtons, next } from './card';
import type { CardEvent, CardState } from './card';
import { expiresAt } from './expiry';
import type { Expiry } from './expiry';

/** Which rule, for how long, and whether the second question was answered with yes. */
export interface Choice {
  readonly number: number;
  readonly expiry: Expiry;
  readonly confirmed: boolean;
  /** For a bound: a figure of the operator's own, as it was typed. */
  readonly limit?: string | null;
}

/** A rule that waits for its second yes. */
export interface Confirming {
  readonly id: BlockId;
  readonly number: number;
  readonly expiry: Expiry;
  readonly limit: string | null;
  /** The question on the card when it was asked. */
  readonly question: number;
  readonly since: number;
}

/** What became of a click. */
export type Taken = 'sent' | 'confirm' | 'ignored';

const clock = (): number => performance.now();

export const useCards = defineStore('cards', () => {
  const cards = shallowReactive(new Map<BlockId, CardState>());
  const now = shallowRef(clock());
  const confirming = shallowRef<Confirming | null>(null);
  /** The card on which a reason to refuse is being written. */
  const telling = shallowRef<BlockId | null>(null);
  /** How many components show a card. */
  const inSight = new Map<BlockId, number>();
  let timer: ReturnType<typeof setTimeout> | undefined;

  function wake(): void {
    now.value = clock();
    for (const [id, state] of cards) put(id, next(state, { type: 'tick' }, now.value));
    schedule();
  }

  function schedule(): void {
    clearTimeout(timer);
    timer = undefined;
    const times = [...cards.values()].map((state) => due(state, clock())).filter((time) => time !== null);
    const asked = confirming.value;
    if (asked !== null && clock() < asked.since + ARM_MS) times.push(asked.since + ARM_MS);
    if (times.length > 0) timer = setTimeout(wake, Math.max(0, Math.ceil(Math.min(...times) - clock())));
  }

  function put(id: BlockId, state: CardState): void {
    if (cards.get(id) !== state) cards.set(id, state);
    const asked = confirming.value;
    if (asked?.id === id && (asked.question !== state.question || state.phase === 'late')) confirming.value = null;
    if (telling.value === id && !hasButtons(state)) telling.value = null;
  }

  function dispatch(id: BlockId, event: CardEvent): void {
    const state = cards.get(id);
    if (state === undefined) return;
    now.value = clock();
    put(id, next(state, event, now.value));
    schedule();
  }

  /** A card comes into sight. What is known of it already is newer than what a list remembers. */
  function draw(view: BlockView): void {
    now.value = clock();
    inSight.set(view.id, (inSight.get(view.id) ?? 0) + 1);
    if (cards.has(view.id)) dispatch(view.id, { type: 'drawn' });
    else put(view.id, appear(view, now.value));
    schedule();
  }

  /** A card was moved by what stands above it. */
  function settleAgain(id: BlockId): void {
    dispatch(id, { type: 'drawn' });
  }

  /** A card goes out of sight; what is known of it stays for as long as its list does. */
  function leave(id: BlockId): void {
    const left = (inSight.get(id) ?? 1) - 1;
    if (left > 0) inSight.set(id, left);
    else inSight.delete(id);
  }

  /** Newer news about a block, for its card if it has one. */
  function see(view: BlockView): void {
    dispatch(view.id, { type: 'seen', view });
  }

  /** Asks the engine how a block stands now; nothing when it cannot be said. */
  async function look(id: BlockId): Promise<BlockView | null> {
    const answer = await call.blockShow({ block: id });
    if (answer.ok) {
      see(answer.value);
      return answer.value;
    }
    cannotSay(id, answer.failure);
    return null;
  }

  /** How a block stands now could not be read: its card says so. */
  function cannotSay(id: BlockId, failure: Failure): void {
    dispatch(id, { type: 'said', note: notThere(failure) });
  }

  async function settle(id: BlockId, answer: Result<Decided>): Promise<void> {
    dispatch(
      id,
      answer.ok ? { type: 'answered', decided: answer.value } : { type: 'refused', failure: answer.failure },
    );
    await look(id);
  }

  /** Lets a block go on by a rule of its card. A rule that opens more is asked about first. */
  async function amend(id: BlockId, choice: Choice): Promise<Taken> {
    const state = cards.get(id);
    if (state === undefined || !canDecide(state, clock())) return 'ignored';
    const candidate = numbered(state.view, choice.number);
    if (candidate === null) return 'ignored';
    if (candidate.needs_confirmation && !choice.confirmed) {
      const { number, expiry, limit = null } = choice;
      confirming.value = { id, number, expiry, limit, question: state.question, since: clock() };
      schedule();
      return 'confirm';
    }
    confirming.value = null;
    dispatch(id, { type: 'asked', asked: 'amend' });
    const answer = await call.blockAmend({
      block: id,
      expect: state.view.expect,
      scope: candidate.scope,
      rule: candidate.number,
      confirmed: choice.confirmed,
      expires: expiresAt(choice.expiry, Date.now()),
      ...(choice.limit ? { limit: choice.limit } : {}),
      surface: 'window',
    });
    await settle(id, answer);
    return 'sent';
  }

  /** Asks for the reason of a denial, on its card. */
  function tell(id: BlockId): void {
    const state = cards.get(id);
    if (state !== undefined && canDecide(state, clock())) telling.value = id;
  }

  /** Refuses a block without a reason; where that would stop its run, it is asked about first. */
  async function refuse(id: BlockId): Promise<Taken> {
    const state = cards.get(id);
    if (state === undefined || !canDecide(state, clock())) return 'ignored';
    if (!stopsRun(state.view)) return deny(id, '');
    telling.value = id;
    return 'confirm';
  }

  /** Refuses a block for the rest of its run; the agent is told the reason, if there is one. */
  async function deny(id: BlockId, reason: string): Promise<Taken> {
    const state = cards.get(id);
    if (state === undefined || !canDecide(state, clock())) return 'ignored';
    dispatch(id, { type: 'asked', asked: 'deny' });
    await settle(id, await call.blockDeny({ block: id, expect: state.view.expect, reason, surface: 'window' }));
    return 'sent';
  }

  /** Takes back what was decided on this card. */
  async function undo(id: BlockId): Promise<Taken> {
    const state = cards.get(id);
    if (state?.phase !== 'decided' || !canUndo(state, clock())) return 'ignored';
    dispatch(id, { type: 'undo' });
    await settle(id, await call.undo({ amendment: state.decided.amendment.id }));
    return 'sent';
  }

  /** The newest decision made here that can still be taken back. */
  const undoable = computed<BlockId | null>(() => {
    let newest: { id: BlockId; until: number } | null = null;
    for (const [id, state] of cards) {
      if (state.phase !== 'decided' || !canUndo(state, now.value)) continue;
      if (newest === null || state.undoUntil > newest.until) newest = { id, until: state.undoUntil };
    }
    return newest?.id ?? null;
  });

  /** Closes the second question. Nothing is decided by that. */
  function leaveOpen(): void {
    confirming.value = null;
  }

  /** A list of cards is left: what is settled is forgotten, what is in sight or can be undone stays. */
  function forget(): void {
    const isInUse = (id: BlockId, state: CardState): boolean =>
      inSight.has(id) || state.phase === 'deciding' || state.phase === 'undoing' || canUndo(state, clock());
    for (const [id, state] of cards) if (!isInUse(id, state)) cards.delete(id);
    if (confirming.value !== null && !inSight.has(confirming.value.id)) confirming.value = null;
    if (telling.value !== null && !inSight.has(telling.value)) telling.value = null;
    schedule();
  }

  return {
    cards, now, confirming, telling, undoable, draw, leave, settleAgain, see, look, cannotSay, amend, tell, refuse, deny, undo, leaveOpen, forget,
  };
});

function notThere(failure: Failure): string {
  return failure.code === 'not_found'
    ? 'This block is not there any more: its run was removed.'
    : `How it stands now could not be read: ${visibleText(failure.message)}.`;
}
