import { defineStore } from 'pinia';
import { shallowRef } from 'vue';
import type { Failure } from '@/ipc/bindings';
import { app } from '@/ipc/app';
import type { AppInfo, Settings } from '@/ipc/app';
import { setTheme } from './theme';

/** What the operator set in this window, and what the desktop says of itself. */
export const useSettings = defineStore('settings', () => {
  const settings = shallowRef<Settings | null>(null);
  const info = shallowRef<AppInfo | null>(null);
  const failure = shallowRef<Failure | null>(null);
  const saving = shallowRef(false);

  async function load(): Promise<void> {
    const [kept, found] = await Promise.all([app.settings(), app.info()]);
    if (kept.ok) {
      settings.value = kept.value;
      setTheme(kept.value.theme);
    }
    if (found.ok) info.value = found.value;
    failure.value = !kept.ok ? kept.failure : !found.ok ? found.failure : null;
  }

  /** Changes some of the settings. What could not be kept is not shown as if it were. */
  async function change(some: Partial<Settings>): Promise<Failure | null> {
    if (some.theme) setTheme(some.theme);
    if (!settings.value) return null;
    saving.value = true;
    const answer = await app.saveSettings({ ...settings.value, ...some });
    saving.value = false;
    if (!answer.ok) return answer.failure;
    settings.value = answer.value;
    return null;
  }

  return { settings, info, failure, saving, load, change };
});
