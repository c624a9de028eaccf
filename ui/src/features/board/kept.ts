import type { RowKey } from './selection';

interface Kept {
  find: string;
  current: RowKey | null;
}

const kept: Kept = { find: '', current: null };

/** What the board remembers while another screen is shown; forgotten when the window ends. */
export function useKept(): Kept {
  return kept;
}
