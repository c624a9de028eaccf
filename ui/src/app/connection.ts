import type { Tone } from '@/lib/state';
import type { Connection } from '@/live/follow';

/** How the window stands with its engine, for the mark in the bar. */
export function connectionWord(connection: Connection): { word: string; tone: Tone } {
  switch (connection) {
    case 'loading':
      return { word: 'Connecting', tone: 'warn' };
    case 'live':
      return { word: 'Live', tone: 'good' };
    case 'reconnecting':
      return { word: 'Reconnecting', tone: 'warn' };
    default:
      return { word: 'No engine', tone: 'bad' };
  }
}
