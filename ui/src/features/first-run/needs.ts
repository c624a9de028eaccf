/** True where the window opens with the first steps: nobody said that they are done, and there is no run yet. */
export function needsFirstRun(settings: { first_run_done: boolean } | null, runs: number | { readonly size: number }): boolean {
  return settings !== null && !settings.first_run_done && (typeof runs === 'number' ? runs : runs.size) === 0;
}
