/** Commands of the desktop itself: what no engine can answer. Same convention as {@link call}. */
import { events } from './bindings';
import type { Navigation, OpenWorktree, Quit, Settings } from './bindings';
import { call } from './call';

export type { AppInfo, DemoView, LinkedOrder, Navigation, Opened, OpenWith, OpenWorktree, Quit, Settings, Theme } from './bindings';
export type Unsubscribe = () => void;

export const app = {
  info: () => call.appInfo(),
  settings: () => call.appSettings(),
  saveSettings: (settings: Settings) => call.appSettingsSave(settings),
  /** Where the window is to go, as far as it was not told. Listen first, then call this. */
  takeNavigation: () => call.appTakeNavigation(),
  openWorktree: (request: OpenWorktree) => call.appOpenWorktree(request),
  chooseFolder: () => call.appChooseFolder(),
  demoStart: () => call.appDemoStart(),
  demoEnd: () => call.appDemoEnd(),
  demoState: () => call.appDemoState(),
  quit: (request: Quit) => call.appQuit(request),
};

/** Calls `to` when the desktop asks the window to go somewhere. Resolves once nothing can be missed any more. */
export async function onNavigate(to: (where: Navigation) => void): Promise<Unsubscribe> {
  try {
    return await events.navigate.listen((event) => to(event.payload));
  } catch (error) {
    // A page outside of the desktop has nobody who would ask.
    console.warn('nobody asks this page to go anywhere:', error);
    return () => undefined;
  }
}
