import type { Event } from '@/ipc/bindings';
import { afterWords, resultWords, wallWords } from '@/features/feed/words';
import { withoutEscapes } from '@/features/feed/ansi';
import type { Tone } from '@/lib/state';
import { commandLine, oneLine, visibleText } from '@/lib/text';

/** Lines of output that a stage keeps; what was said before them is in the feed. */
export const MOST_LINES = 200;

/** A stage of making a run ready. */
export interface Stage {
  id: string;
  title: string;
  tone: Tone;
  word: string;
  /** When it was first told of. */
  at: string;
  lines: readonly string[];
  /** Lines that are not kept here. */
  left: number;
}

export interface Provisioning {
  stages: readonly Stage[];
  /** True once the agent itself was started, or the run came to its end before that. */
  isOver: boolean;
}

export const NOTHING_YET: Provisioning = { stages: [], isOver: false };

const TITLES: Readonly<Record<string, string>> = {
  base: 'Base branch',
  room: 'Disk space',
  worktree: 'Worktree',
  submodules: 'Submodules',
  copies: 'Copied files',
  shadow: 'Git directory of its own',
  cage: 'Cage',
  probe: 'Walls',
  setup: 'Setup',
  announced: 'Setup command',
};

/** Takes the next event in. Pure; what is no part of making ready changes nothing. */
export function withEvent(known: Provisioning, event: Event): Provisioning {
  if (known.isOver) return known;
  switch (event.kind) {
    case 'progress':
      // Which command it will be is told before anything is done; the stage itself begins with its step.
      return event.stage === 'setup'
        ? said(known, event, 'announced', oneLine(event.message, 400), 'good', 'known')
        : said(known, event, event.stage, oneLine(event.message, 400), 'busy', 'under way');
    case 'warning':
      return said(known, event, known.stages.at(-1)?.id ?? 'notes', oneLine(event.message, 400), 'warn', 'take note');
    case 'probe': {
      const holds = event.holds ? 'holds' : 'does not hold';
      const line = `${wallWords(event.wall)} ${holds}: ${oneLine(event.detail, 300)}`;
      return said(known, event, 'probe', line, event.holds ? 'good' : 'bad', event.holds ? 'hold' : 'one does not hold');
    }
    case 'step_started':
      if (event.what !== 'setup') return { ...finished(known, 'good', 'done'), isOver: true };
      return said(known, event, 'setup', commandLine(event.argv, 400), 'busy', 'running');
    case 'step_ended': {
      const { tone } = resultWords(event);
      return said(known, event, 'setup', `The command ${afterWords(event, event.millis)}.`, tone, tone === 'good' ? 'done' : 'failed');
    }
    case 'output': {
      const lines = withoutEscapes(event.text).replace(/\r?\n$/, '').split('\n').map((line) => visibleText(line.slice(0, 2000)));
      return lines.reduce((stages, line) => said(stages, event, 'setup', line, 'busy', 'running'), known);
    }
    case 'state':
      if (event.to.state === 'failed' || event.to.state === 'cancelled' || event.to.state === 'interrupted') {
        return { ...finished(known, 'bad', 'did not finish'), isOver: true };
      }
      return known;
    default:
      return known;
  }
}

/** Adds a line to a stage. A stage that another one follows is done, unless something was wrong with it. */
function said(known: Provisioning, event: Event, id: string, line: string, tone: Tone, word: string): Provisioning {
  const at = known.stages.findIndex((stage) => stage.id === id);
  const before = known.stages[at];
  if (before === undefined) {
    const title = TITLES[id] ?? capital(visibleText(id.slice(0, 40)));
    const stage: Stage = { id, title, tone, word, at: event.at, lines: [line], left: 0 };
    return { ...known, stages: [...finished(known, 'good', 'done').stages, stage] };
  }
  const lines = [...before.lines, line];
  const over = Math.max(0, lines.length - MOST_LINES);
  const isWorse = weight(tone) >= weight(before.tone);
  const stage: Stage = {
    ...before,
    lines: lines.slice(over),
    left: before.left + over,
    ...(isWorse || before.tone === 'busy' ? { tone, word } : {}),
  };
  return { ...known, stages: known.stages.map((other, index) => (index === at ? stage : other)) };
}

function finished(known: Provisioning, tone: Tone, word: string): Provisioning {
  return { ...known, stages: known.stages.map((stage) => (stage.tone === 'busy' ? { ...stage, tone, word } : stage)) };
}

function weight(tone: Tone): number {
  return { busy: 0, idle: 0, good: 1, accent: 1, warn: 2, bad: 3 }[tone];
}

function capital(word: string): string {
  return word.charAt(0).toUpperCase() + word.slice(1);
}
