import { ref } from 'vue';

export type ThemeChoice = 'system' | 'dark' | 'light';
const KEY = 'sdf.theme';

/** The theme to show for a choice. */
export function themeFor(choice: ThemeChoice, systemIsLight: boolean): 'dark' | 'light' {
  if (choice === 'system') return systemIsLight ? 'light' : 'dark';
  return choice;
}

function choiceOf(kept: string | null): ThemeChoice {
  return kept === 'light' || kept === 'system' || kept === 'dark' ? kept : 'dark';
}

const system = typeof matchMedia === 'function' ? matchMedia('(prefers-color-scheme: light)') : null;
export const themeChoice = ref<ThemeChoice>(choiceOf(localStorage.getItem(KEY)));
export const shownTheme = ref<'dark' | 'light'>('dark');

function show(): void {
  shownTheme.value = themeFor(themeChoice.value, system?.matches ?? false);
  document.documentElement.dataset['theme'] = shownTheme.value;
}

/** Shows a theme from now on; kept here as well, so that the next start has it before the first paint. */
export function setTheme(choice: ThemeChoice): void {
  themeChoice.value = choice;
  localStorage.setItem(KEY, choice);
  show();
}

system?.addEventListener('change', show);
show();
