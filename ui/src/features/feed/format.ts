import type { Event, LogStream } from '@/ipc/bindings';
import { boundName } from '@/features/blocks/bounds';
import { bytes } from '@/lib/bytes';
import { count, figure } from '@/lib/count';
import { runWord } from '@/lib/state';
import type { Tone } from '@/lib/state';
import { commandLine, oneLine } from '@/lib/text';
import { duration, millisOf } from '@/lib/time';
import { agentRow } from './agent';
import { hasEscapes, stretchesOf } from './ansi';
import type { Stretch } from './ansi';
import {
  afterWords,
  amendmentWords,
  blockWords,
  resultWords,
  short,
  stateWords,
  subjectWords,
  wallWords,
} from './words';

/** A row of the feed, ready to be shown: everything in it is one visible line. */
export interface RowView {
  time: string;
  step: string;
  tone: Tone;
  /** What happened, in one word. */
  word: string;
  text: string;
  /** The text in its colours, where a terminal would show some. */
  stretches: readonly Stretch[] | null;
  /** Machine text, as opposed to our sentences. */
  isMachine: boolean;
}

type Said = Pick<RowView, 'tone' | 'word' | 'text'> & Partial<Pick<RowView, 'stretches' | 'isMachine'>>;

/** Longest text of a row, in characters; the detail pane has all of it. */
const LONGEST = 400;
const STREAMS: Readonly<Record<LogStream, string>> = { stdout: 'out', stderr: 'err', terminal: 'tty', received: 'from', sent: 'to' };

/** How an event is shown. One case a kind; a kind that this window does not know is shown as it came. */
export function formatEvent(event: Event): RowView {
  return {
    time: clock(event.at),
    step: oneLine(event.step ?? '', 24),
    stretches: null,
    isMachine: false,
    ...say(event),
  };
}

/** Time of day in the operator's zone, to the millisecond. */
export function clock(at: string): string {
  const millis = millisOf(at);
  if (millis === null) return '--:--:--.---';
  const date = new Date(millis);
  const two = (n: number): string => n.toString().padStart(2, '0');
  const parts = [date.getHours(), date.getMinutes(), date.getSeconds()].map(two).join(':');
  return `${parts}.${date.getMilliseconds().toString().padStart(3, '0')}`;
}

function say(event: Event): Said {
  switch (event.kind) {
    case 'state':
      return { tone: runWord(event.to).tone, word: 'state', text: `the run ${stateWords(event.to)}` };
    case 'progress':
      return { tone: 'idle', word: oneLine(event.stage, 12), text: oneLine(event.message, LONGEST) };
    case 'warning':
      return { tone: 'warn', word: 'warning', text: oneLine(event.message, LONGEST) };
    case 'probe':
      return {
        tone: event.holds ? 'good' : 'bad',
        word: 'wall',
        text: `${wallWords(event.wall)} ${event.holds ? 'holds' : 'does not hold'}: ${oneLine(event.detail, LONGEST)}`,
      };
    case 'step_started': {
      const what = event.argv.length === 0 ? event.what : commandLine(event.argv, LONGEST);
      return { tone: 'busy', word: 'starts', text: what, isMachine: event.argv.length > 0 };
    }
    case 'step_ended':
      return { tone: resultWords(event).tone, word: 'ended', text: `the step ${afterWords(event, event.millis)}` };
    case 'shell_opened':
      return {
        tone: 'busy',
        word: 'shell',
        text: `opened by ${oneLine(event.by, 60)}${event.terminal ? ' on a terminal' : ''}: ${commandLine(event.argv, LONGEST)}`,
      };
    case 'shell_ended':
      return {
        tone: resultWords(event).tone,
        word: 'shell',
        text: `the shell ${afterWords(event, event.millis)}`,
      };
    case 'port_opened':
      return {
        tone: 'busy',
        word: 'port',
        text: `${String(event.port)} published by ${oneLine(event.by, 60)} at http://127.0.0.1:${String(event.to)}/${event.listening ? '' : '; nothing listens there yet'}`,
      };
    case 'port_closed':
      return {
        tone: 'idle',
        word: 'port',
        text: `${String(event.port)} closed: ${count(event.connections, 'connection')}, sent ${bytes(event.sent)}, received ${bytes(event.received)}`,
      };
    case 'output':
      return output(event.stream, event.text, event.continued ?? false);
    case 'agent':
      return agentRow(event, LONGEST);
    case 'name_looked_up':
      return { tone: 'idle', word: 'name', text: `${oneLine(event.name, 253)} was looked up; nothing left the cage` };
    case 'egress':
    case 'file':
      return judged(event);
    case 'exec': {
      const argv = event.process?.argv ?? [];
      const what = argv.length > 0 ? commandLine(argv, LONGEST) : oneLine(event.program, LONGEST);
      return { tone: 'idle', word: 'runs', text: `${what}${timesWords(event.count)}`, isMachine: true };
    }
    case 'exit': {
      const program = event.program ? oneLine(event.program, 200) : 'a program';
      const { words, tone } = exitWords(event);
      return { tone, word: 'exit', text: `${program}${timesWords(event.count)} ${words}` };
    }
    case 'connection_closed': {
      const flow = `sent ${bytes(event.sent)}, received ${bytes(event.received)}, open ${duration(event.millis)}`;
      return event.cut
        ? { tone: 'warn', word: 'cut', text: `${subjectWords(event.subject)}: cut by a decision; ${flow}` }
        : { tone: 'idle', word: 'closed', text: `${subjectWords(event.subject)}: ${flow}` };
    }
    case 'block': {
      const { words, tone } = blockWords(event.block);
      return { tone, word: 'block', text: words };
    }
    case 'amendment': {
      const { words, tone } = amendmentWords(event.amendment);
      return { tone, word: event.amendment.decision === 'deny' ? 'denial' : 'amended', text: words };
    }
    case 'policy_applied': {
      const effects = [
        [event.released, 'action', 'let go'],
        [event.refused, 'action', 'refused'],
        [event.cut, 'connection', 'cut'],
      ] as const;
      const told = effects.filter(([n]) => n > 0).map(([n, one, what]) => `, ${count(n, one)} ${what}`);
      return { tone: 'idle', word: 'policy', text: `revision ${figure(event.revision)} is in force${told.join('')}` };
    }
    case 'bound': {
      const figures = `${boundName(event.bound)}, ${oneLine(event.figure, 80)} of ${oneLine(event.limit, 80)}`;
      return event.reached
        ? { tone: 'bad', word: 'bound', text: `reached: ${figures}` }
        : { tone: 'warn', word: 'bound', text: `near: ${figures}` };
    }
    case 'sample': {
      const parts = [
        event.cpu_millicores === null ? null : `${(event.cpu_millicores / 1000).toFixed(2)} processors`,
        event.memory_bytes === null ? null : `memory ${bytes(event.memory_bytes)}`,
        event.processes === null ? null : count(event.processes, 'process', 'processes'),
        event.disk_bytes === null ? null : `disk ${bytes(event.disk_bytes)}`,
      ];
      return { tone: 'idle', word: 'uses', text: parts.filter((part) => part !== null).join(', ') || 'nothing could be measured' };
    }
    case 'commits': {
      const ours = event.finished_by_us ? '; the last one holds what the agent had left uncommitted' : '';
      return { tone: 'good', word: 'commits', text: `${count(event.count, 'commit')}, tip ${short(event.head)}${ours}` };
    }
    case 'gap':
      return {
        tone: 'warn',
        word: 'dropped',
        text: `${count(event.count, 'event')} dropped by retention, output first: ${oneLine(event.reason, 200)}`,
      };
    default:
      return unknown(event);
  }
}

function output(stream: LogStream, said: string, continued: boolean): Said {
  const line = said.replace(/\r?\n$/, '').replaceAll('\t', '    ');
  const word = STREAMS[stream] ?? oneLine(stream, 12);
  const tail = continued ? ' …continues' : '';
  if (!hasEscapes(line)) return { tone: 'idle', word, text: `${oneLine(line, LONGEST)}${tail}`, isMachine: true };
  // An escape sequence is cut nowhere: the kept text is short, and a row hides what does not fit.
  const stretches = stretchesOf(line.slice(0, 2 * LONGEST));
  if (continued) stretches.push({ text: tail, style: '' });
  return { tone: 'idle', word, text: stretches.map((one) => one.text).join(''), stretches, isMachine: true };
}

function timesWords(times: number): string {
  return times > 1 ? ` ×${figure(times)}` : '';
}

function exitWords(event: Extract<Event, { kind: 'exit' }>): { words: string; tone: Tone } {
  const after = `after ${duration(event.millis)}`;
  const code = event.code ?? null;
  const signal = event.signal ?? null;
  if (signal !== null) return { words: `was ended by signal ${String(signal)} ${after}`, tone: 'warn' };
  if (code === null) return { words: `ended ${after}`, tone: 'idle' };
  if (code === 0) return { words: `ended well ${after}`, tone: 'idle' };
  return { words: `ended with code ${String(code)} ${after}`, tone: 'warn' };
}

function judged(event: Extract<Event, { kind: 'egress' | 'file' }>): Said {
  const what = `${subjectWords(event.subject)}${timesWords(event.count)}`;
  switch (event.verdict) {
    case 'allowed':
      return { tone: 'good', word: event.kind === 'egress' ? 'connect' : 'file', text: `${what} (allowed by ${oneLine(event.rule, 80)})` };
    case 'held':
      return { tone: 'accent', word: 'held', text: `${what} waits under ${oneLine(event.block, 40)}` };
    case 'refused':
      return { tone: 'bad', word: 'refused', text: `${what}: ${oneLine(event.why, LONGEST)}` };
    case 'unreachable':
      return { tone: 'warn', word: event.kind === 'egress' ? 'no answer' : 'not shown', text: `${what}: ${oneLine(event.why, LONGEST)}` };
    default:
      return unknown(event);
  }
}

/** What no case knows: newer engines may tell of more than this window has words for. */
function unknown(event: never): Said {
  const value: { kind?: unknown } = event;
  const tag = typeof value.kind === 'string' ? value.kind : 'unknown';
  return { tone: 'warn', word: oneLine(tag, 16), text: oneLine(JSON.stringify(value), LONGEST), isMachine: true };
}
