import type { Tone } from '@/lib/state';
import { oneLine } from '@/lib/text';

export interface TrustOf {
  what: 'policy' | 'project';
  repo: string;
}

/** How a repository's file stands with the operator. */
export function trustWord(standing: string | null | undefined): { word: string; tone: Tone; there: boolean } {
  switch (standing) {
    case 'absent':
      return { word: 'None', tone: 'idle', there: false };
    case 'trusted':
      return { word: 'Trusted', tone: 'good', there: true };
    case 'untrusted':
      return { word: 'Not trusted', tone: 'warn', there: true };
    case 'changed':
      return { word: 'Changed since trusted', tone: 'warn', there: true };
    case null:
    case undefined:
      return { word: 'Not known', tone: 'idle', there: false };
    default:
      return { word: oneLine(standing, 40), tone: 'warn', there: true };
  }
}
