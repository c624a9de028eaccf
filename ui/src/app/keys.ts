import { computed, onScopeDispose, shallowRef } from 'vue';
import { dialogIsOpen } from '@/ui/dialogs';
import { advance, chordOf, isBare } from './chords';

export interface KeyAction {
  /** What it does, for the help sheet: "Open the run". */
  does: string;
  run: () => void;
}
export type KeyMap = Record<string, KeyAction>;

interface Scope {
  name: string;
  map: KeyMap;
}

const SEQUENCE_MS = 1200;
const scopes = shallowRef<readonly Scope[]>([]);
let typed = '';
let typedAt = 0;

/** Everything that counts now, the newest scope first; a key that two scopes name belongs to the newer one. */
export const activeKeys = computed(() => {
  const taken = new Set<string>();
  return [...scopes.value].reverse().map(({ name, map }) => ({
    scope: name,
    keys: Object.entries(map).flatMap(([keys, action]) => {
      if (taken.has(keys)) return [];
      taken.add(keys);
      return [{ keys, does: action.does }];
    }),
  }));
});

function find(keys: string): KeyAction | undefined {
  for (let at = scopes.value.length - 1; at >= 0; at -= 1) {
    const action = scopes.value[at]?.map[keys];
    if (action) return action;
  }
  return undefined;
}

/** True where letters are text: a field, or something that handles keys itself. */
export function takesText(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  if (target.isContentEditable) return true;
  if (target instanceof HTMLInputElement) return !['checkbox', 'radio', 'button', 'submit'].includes(target.type);
  return target instanceof HTMLTextAreaElement || target instanceof HTMLSelectElement;
}

/** True where Enter and Space already mean something: a button, a link, a tab, an open menu. */
function actsItself(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest('button, a[href], summary, [role="menu"], [role="listbox"], [role="option"]') !== null;
}

function inMenu(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest('[role="menu"], [role="listbox"]') !== null;
}

/** Handles one key of the whole window. */
export function handleKey(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.isComposing || ['Control', 'Meta', 'Shift', 'Alt'].includes(event.key)) return;
  const chord = chordOf(event);
  const bare = isBare(chord);
  if (bare && (dialogIsOpen.value || takesText(event.target) || inMenu(event.target))) return;
  if (!bare && dialogIsOpen.value) return;
  if ((chord === 'Enter' || chord === 'Space') && actsItself(event.target)) return;
  const now = event.timeStamp;
  const step = advance(now - typedAt > SEQUENCE_MS ? '' : typed, chord, scopes.value.flatMap(({ map }) => Object.keys(map)));
  typed = 'wait' in step ? step.wait : '';
  typedAt = now;
  if ('miss' in step) return;
  event.preventDefault();
  if ('hit' in step) find(step.hit)?.run();
}

/**
 * Keys that count while the caller is on the screen. Bare keys are off while typing and while a dialog is open.
 * A bare key must never destroy anything.
 */
export function useKeys(scope: string, map: KeyMap): void {
  const entry: Scope = { name: scope, map };
  scopes.value = [...scopes.value, entry];
  onScopeDispose(() => {
    scopes.value = scopes.value.filter((other) => other !== entry);
  });
}
