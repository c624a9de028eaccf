import { visibleLines } from '@/lib/text';

/** What the engine says of sleep ("held off, because...", "cannot be held off...") as a whole sentence. */
export function awakeWords(words: string): string {
  return `Sleep ${/^(can|could|will|may)/.test(words) ? '' : 'is '}${visibleLines(words)}`;
}
