import type { Ref } from 'vue';
import { useRouter } from 'vue-router';
import { useKeys } from './keys';
import { quitAsked } from './navigation';
import { paletteIsOpen, useActions } from './palette';
import type { Action } from './palette';
import { useQueue } from './queue';
import { useSettings } from './settings';
import { useLive } from '@/live/store';
import { isLive } from '@/lib/state';

const PLACES = [
  { keys: 'g b', path: '/', name: 'Board' },
  { keys: 'g i', path: '/inbox', name: 'Inbox' },
  { keys: 'g p', path: '/policy', name: 'Policy' },
  { keys: 'g n', path: '/orders/new', name: 'New order' },
  { keys: 'g d', path: '/doctor', name: 'Doctor' },
  { keys: 'g s', path: '/settings', name: 'Settings' },
  { keys: 'g f', path: '/first-run', name: 'First run' },
] as const;

/** Keys and actions that count on every screen. */
export function useEverywhere(help: Ref<boolean>): void {
  const router = useRouter();
  const queue = useQueue();
  const settings = useSettings();
  const live = useLive();
  const go = (path: string) => () => void router.push(path);

  useKeys('Everywhere', {
    'mod+k': { does: 'All actions', run: () => (paletteIsOpen.value = true) },
    '?': { does: 'These keys', run: () => (help.value = true) },
    ...Object.fromEntries(PLACES.map(({ keys, path, name }) => [keys, { does: `Go to ${name}`, run: go(path) }])),
  });

  useActions(() => {
    const actions: Action[] = PLACES.map(({ keys, path, name }) => ({ id: `go:${path}`, title: `Go to ${name}`, keys, group: 'Go', run: go(path) }));
    actions.push(
      { id: 'queue', title: queue.paused.value ? 'Resume queue' : 'Pause queue', group: 'Queue', run: () => void queue.toggle() },
      { id: 'theme:dark', title: 'Use the dark theme', group: 'Window', run: () => void settings.change({ theme: 'dark' }) },
      { id: 'theme:light', title: 'Use the light theme', group: 'Window', run: () => void settings.change({ theme: 'light' }) },
      { id: 'theme:system', title: 'Use the theme of the desktop', group: 'Window', run: () => void settings.change({ theme: 'system' }) },
      { id: 'help', title: 'Show keys', keys: '?', group: 'Window', run: () => (help.value = true) },
      { id: 'quit', title: 'Quit SDF', group: 'Window', run: () => (quitAsked.value = [...live.runs.values()].filter(isLive).length) },
    );
    return actions;
  });
}
