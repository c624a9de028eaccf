// How a block, its rules and a decision read. The same words as the command line uses, so that an
// operator who sees one thing on two surfaces sees it said once. Everything that came from a cage
// leaves here with its control and direction characters shown as marks.

import type { Amendment, Block, BlockView, BoundKind, Decided, FileFacts, Host, Scope, SocketFacts, Subject } from '@/ipc/bindings';
import { askedLines, questionWords } from './questions';
import { count } from '@/lib/count';
import { boundLines, boundName, boundOf, breachWords, pausesAt, stopsRun } from './bounds';
import { commandLine, visibleText } from '@/lib/text';
import { exact } from '@/lib/time';

/** Longest command that a card shows of one process. */
const LONGEST_COMMAND = 240;
/** Characters of what an agent asks that its one line holds. */
const ASKED_SHOWN = 160;
/** Processes that a card names. */
const NAMED_PROCESSES = 3;

/** `registry.example`, `192.0.2.7`, `[2001:db8::1]`. */
export function hostWords(host: Host): string {
  if (host.name !== undefined) return visibleText(host.name);
  const address = visibleText(host.address);
  return address.includes(':') ? `[${address}]` : address;
}

/** `tcp registry.example:443`, with the address where it is a private one; `write /srv/data`. */
export function subjectWords(subject: Subject): string {
  switch (subject.type) {
    case 'egress': {
      const at = subject.resolved ? ` at ${visibleText(subject.resolved)}` : '';
      return `${subject.protocol} ${hostWords(subject.host)}:${String(subject.port)}${at}`;
    }
    case 'file':
      return `${subject.access} ${visibleText(subject.path)}`;
    case 'socket':
      return `socket ${visibleText(subject.path)}`;
    case 'bound':
      return `bound of ${boundName(subject.bound)}`;
    case 'question':
      return questionWords(subject, ASKED_SHOWN);
    default:
      return subject satisfies never;
  }
}

/** What was held, in words that cover all of it: for files of one folder that is the folder, for a bound its figures. */
export function blockWords(block: Block): string {
  const { subject, file, breach } = block;
  if (subject.type === 'bound' && breach) return `${subjectWords(subject)}, ${breachWords(breach)}`;
  if (subject.type !== 'file' || !file || file.different < 2) return subjectWords(subject);
  return `${subject.access} ${String(file.different)} paths in ${visibleText(file.folder)}`;
}

/** More about what was attempted, a line each. */
export function detailWords(block: Block): string[] {
  switch (block.subject.type) {
    case 'egress':
      return [addressWords(block)];
    case 'file':
      return block.file ? fileWords(block.file) : [];
    case 'socket':
      return block.socket ? [serviceWords(block.socket)] : [];
    case 'bound':
      return boundLines(block);
    case 'question':
      return askedLines(block);
    default:
      return block.subject satisfies never;
  }
}

/** The paths behind a block of files, what was there, and in which folder. */
export function fileWords(file: FileFacts): string[] {
  const [first, ...rest] = file.paths.map(visibleText);
  const lines = first === undefined ? [] : [`${first} (${targetWords(file)})`];
  lines.push(...rest);
  const more = file.different - file.paths.length;
  if (more > 0) lines.push(`and ${String(more)} more`);
  lines.push(`In ${visibleText(file.folder)}, by ${visibleText(file.call)}.`);
  return lines;
}

function targetWords(file: FileFacts): string {
  switch (file.target) {
    case 'file':
      return 'a file';
    case 'folder':
      return 'a folder';
    case 'absent':
      return 'not there yet';
    case 'other':
      return 'neither a file nor a folder';
    default:
      return file.target satisfies never;
  }
}

/** What was looked up and which address goes with it, as far as that is known. */
export function addressWords(block: Block): string {
  if (block.subject.type !== 'egress') return '';
  const { host, resolved } = block.subject;
  if (host.name === undefined) return 'A bare address: no name was looked up.';
  const name = `Looked up as ${visibleText(host.name)}`;
  if (!block.address_vetted) return `${name}. Not vetted: the proxy resolves the name, not this machine.`;
  if (resolved) return `${name}, which resolves to ${visibleText(resolved)}, a private address.`;
  if (block.state === 'amended') return `${name}.`;
  return `${name}. Not resolved: a name is only resolved once a rule allows it.`;
}

/** The processes that wait or waited, a line each, and how many more there are. */
export function processWords(block: Block): string[] {
  const lines = block.holders.slice(0, NAMED_PROCESSES).map((holder) => {
    const command = commandLine(holder.argv, LONGEST_COMMAND) || 'a process that is gone';
    return `${command} (pid ${String(holder.pid)})`;
  });
  const more = block.holders.length - NAMED_PROCESSES;
  if (more > 0) lines.push(`and ${String(more)} more`);
  return lines;
}

/** How many wait: `2 connections (5 seen)`. */
export function waitingWords(block: Block): string {
  if (block.subject.type === 'bound') return pausedWaitWords(block, block.subject.bound);
  if (block.waiting === 0) return `nothing any more (${count(block.seen, 'attempt')} seen)`;
  const waiting = count(block.waiting, waitingName(block.subject));
  return block.waiting === block.seen ? waiting : `${waiting} (${String(block.seen)} seen)`;
}

function waitingName(subject: Subject): string {
  switch (subject.type) {
    case 'egress':
    case 'socket':
      return 'connection';
    case 'file':
    case 'bound':
      return 'action';
    case 'question':
      return 'question';
    default:
      return subject satisfies never;
  }
}

function pausedWaitWords(block: Block, bound: BoundKind): string {
  if (!pausesAt(bound)) return 'nothing, the run goes on';
  const reached = `reached ${count(block.seen, 'time')}`;
  if (block.waiting === 0) return `nothing any more (${reached})`;
  return block.seen > block.waiting ? `the paused run (${reached})` : 'the paused run';
}

/** What the subject of a card did, as the name of its fact. */
export function factName(subject: Subject): string {
  if (subject.type === 'question') return 'Asks';
  return subject.type === 'bound' ? 'Reached' : 'Attempted';
}

/** Who is behind a socket. */
function serviceWords({ owner, listening, program }: SocketFacts): string {
  const unseen = listening ? 'A program that this account cannot look at' : 'Nobody was seen to';
  const who = program ? `${visibleText(program)} listens there` : `${unseen}${listening ? ' listens there' : ' listen there'}`;
  return `${who}; the socket belongs to ${visibleText(owner)}.`;
}

/** What refusing it is called: at a bound it stops the run, or leaves the bound as it is. */
export function denyWord(view: BlockView): string {
  if (view.subject.type === 'question') return 'Answer no';
  if (view.subject.type !== 'bound') return 'Deny';
  return stopsRun(view) ? 'Stop the run' : 'Keep the bound';
}

/** Which wall stopped it. */
export function wallWords(subject: Subject): string {
  switch (subject.type) {
    case 'egress':
      return 'Network wall';
    case 'file':
      return 'File wall';
    case 'socket':
      return 'Socket wall';
    case 'bound':
      return 'Bound of the run';
    case 'question':
      return 'The agent itself';
    default:
      return subject satisfies never;
  }
}

/** What a card is headed with. An expired block is never called denied. */
export function stateTitle(view: BlockView): string {
  const bound = boundOf(view.subject);
  switch (view.state) {
    case 'open':
      if (view.subject.type === 'question') return 'Asks you';
      return bound !== null && pausesAt(bound) ? 'Paused' : 'Held';
    case 'amended':
      return 'Amended';
    case 'denied':
      return 'Denied';
    case 'expired':
      return 'Expired';
    case 'gone':
      return bound !== null && !pausesAt(bound) ? 'Goes on' : 'Gone';
    default:
      return view satisfies never;
  }
}

/** How many of these wait, and how many ask about later runs only: "2 blocks wait; 1 asks about later runs". */
export function askingWords(views: readonly BlockView[]): string {
  const waits = views.filter((view) => view.state === 'open').length;
  const later = views.length - waits;
  const parts = waits > 0 || later === 0 ? [waits === 0 ? 'Nothing waits' : `${count(waits, 'block')} ${waits === 1 ? 'waits' : 'wait'}`] : [];
  if (later > 0) parts.push(`${parts.length === 0 ? count(later, 'block') : String(later)} ${later === 1 ? 'asks' : 'ask'} about later runs`);
  return parts.join('; ');
}

/** Where a block that is not open stands, as a sentence. */
export function standingWords(view: BlockView): string {
  switch (view.state) {
    case 'open':
      return '';
    case 'amended':
    case 'denied':
      return view.decided ? `${sentence(visibleText(view.decided))}` : `${stateTitle(view)}.`;
    case 'expired': {
      const when = view.decided ? sentence(visibleText(view.decided)) : 'Given up without an answer.';
      if (view.subject.type === 'bound') return `${when} Nobody denied it; the run was stopped. ${LATER_RUNS}`;
      return `${when} Nobody denied it; an amendment still helps its next try.`;
    }
    case 'gone':
      if (view.subject.type === 'bound') return goneAtBound(view.subject.bound);
      if (view.subject.type === 'question') return 'The agent took its question back, or ended. An answer for the run still counts when it asks again.';
      return 'Every process behind it ended or gave up. An amendment still helps its next try.';
    default:
      return view satisfies never;
  }
}

const LATER_RUNS = 'A higher bound still helps later runs.';

function goneAtBound(bound: BoundKind): string {
  return pausesAt(bound)
    ? `The run does not wait at this bound any more. ${LATER_RUNS}`
    : 'A higher bound counts from the next run on.';
}

/** What can still be done about a block that does not wait: above its buttons. */
export function stillWords(view: BlockView): string {
  if (view.subject.type === 'bound' && view.state !== 'denied') return standingWords(view);
  if (view.subject.type === 'question') return standingWords(view);
  const title = view.state === 'expired' ? 'Expired' : 'Gone';
  return `${title}: nothing waits any more. An amendment still helps its next try.`;
}

/** What a surface that was late says: "Already amended by you at 14:02." */
export function lateWords(view: BlockView): string {
  if (view.state !== 'amended' && view.state !== 'denied') return standingWords(view);
  return `Already ${view.decided ? visibleText(view.decided) : stateTitle(view).toLowerCase()}.`;
}

/** What a decision did, to each held action, or to the run that waited at its bound. */
export function outcomeWords(decided: Decided, subject: Subject): string {
  const words = visibleText(decided.amendment.words);
  const parts = [`${decided.amendment.decision === 'allow' ? 'Amended' : 'Denied'}: ${words}`];
  if (subject.type === 'bound') {
    if (decided.released > 0) parts.push('the run goes on');
    if (decided.refused > 0) parts.push('the run is stopped');
  } else if (subject.type === 'question') {
    if (decided.released + decided.refused > 0) parts.push('the agent goes on');
  } else {
    if (decided.released > 0) parts.push(`${count(decided.released, 'action')} let go`);
    if (decided.refused > 0) parts.push(`${count(decided.refused, 'action')} refused`);
  }
  if (decided.cut > 0) parts.push(`${count(decided.cut, 'open connection')} cut`);
  if (decided.amendment.expires) parts.push(`it ends by itself on ${exact(decided.amendment.expires)}`);
  if (!decided.in_force) parts.push('the run is over, so it is only recorded');
  const late = decided.late ? ` ${sentence(visibleText(decided.late))}` : '';
  return `${parts.join('; ')}.${late}`;
}

/** What taking a decision back did; without its subject, where only the record is known. */
export function takenBackWords(decided: Decided, subject: Subject | null): string {
  if (subject?.type === 'bound') {
    return decided.amendment.decision === 'deny'
      ? 'Taken back. A run that was stopped stays stopped.'
      : 'Taken back: the bound is what it was before. What the run has used or written stays.';
  }
  if (subject?.type === 'question') return 'Taken back: what the agent was answered stays so, and its next question is asked again.';
  const cut = decided.cut > 0 ? `; ${count(decided.cut, 'open connection')} cut` : '';
  return `Taken back${cut}. Bytes already sent and files already written stay, and a file that is open stays open.`;
}

/** How far a decision reaches, for a menu. */
export function scopeWords(scope: Scope): string {
  switch (scope) {
    case 'once':
      return 'Once';
    case 'run':
      return 'This run';
    case 'order':
      return 'This work order';
    case 'project':
      return 'This project';
    default:
      return scope satisfies never;
  }
}

/** Where a recorded decision stands. */
export function amendmentStateWords(amendment: Amendment): string {
  switch (amendment.state) {
    case 'active':
      return 'in force';
    case 'revoked':
      return 'taken back';
    case 'lapsed':
      return amendment.scope === 'once' ? 'used up' : 'lapsed';
    default:
      return amendment.state satisfies never;
  }
}

/** Text as a sentence: with a capital and a full stop. */
export function sentence(text: string): string {
  const trimmed = text.trim();
  if (trimmed === '') return '';
  const first = trimmed.charAt(0).toUpperCase() + trimmed.slice(1);
  return /[.?!…]$/.test(first) ? first : `${first}.`;
}
