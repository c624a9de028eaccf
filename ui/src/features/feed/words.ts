import { boundName, breachWords, pausesAt } from '@/features/blocks/bounds';
import { questionWords } from '@/features/blocks/questions';
import type { Amendment, Block, BoundKind, CancelCause, Host, RunState, StepResult, Subject, Wall } from '@/ipc/bindings';
import { outcomeWords } from './agent';
import { oneLine, visibleText } from '@/lib/text';
import { duration } from '@/lib/time';
import type { Tone } from '@/lib/state';
import { count } from '@/lib/count';

/** A host as it is typed: a bare IPv6 address in brackets. Visible. */
export function hostWords(host: Host): string {
  if (host.name !== undefined) return oneLine(host.name, 253);
  const address = oneLine(host.address, 64);
  return address.includes(':') ? `[${address}]` : address;
}

/** What was attempted: "registry.example:443", "udp time.example:123", "write /srv/data". */
export function subjectWords(subject: Subject): string {
  if (subject.type === 'file') return `${subject.access} ${oneLine(subject.path, 300)}`;
  if (subject.type === 'socket') return `socket ${oneLine(subject.path, 300)}`;
  if (subject.type === 'bound') return `bound of ${boundName(subject.bound)}`;
  if (subject.type === 'question') return questionWords(subject, 160);
  const where = `${hostWords(subject.host)}:${subject.port}`;
  const resolved = subject.resolved ?? null;
  const private_ = resolved === null ? '' : ` (its private address ${oneLine(resolved, 64)})`;
  return `${subject.protocol === 'tcp' ? '' : `${subject.protocol} `}${where}${private_}`;
}

const WALLS: Readonly<Record<Wall, string>> = {
  user_namespace: 'user namespaces',
  mounts: 'private mounts',
  network: 'network',
  dns: 'names',
  seccomp: 'system calls',
  git: 'git',
  landlock: 'files (Landlock)',
  cgroup: 'control groups',
};

export function wallWords(wall: string): string {
  return Object.hasOwn(WALLS, wall) ? WALLS[wall as Wall] : oneLine(wall, 40);
}

/** How a step or a shell ended. */
export function resultWords(result: StepResult): { words: string; tone: Tone } {
  switch (result.result) {
    case 'succeeded':
      return { words: 'ended well', tone: 'good' };
    case 'exited':
      return { words: `ended with exit code ${result.code}`, tone: 'bad' };
    case 'signalled':
      return { words: `was ended by signal ${result.signal}`, tone: 'bad' };
    case 'not_started':
      return { words: `did not start: ${oneLine(result.why, 300)}`, tone: 'bad' };
    case 'stopped':
      return { words: `was stopped: ${oneLine(result.why, 300)}`, tone: 'warn' };
    case 'reported': {
      const { words, tone } = outcomeWords(result.outcome, result.why);
      return { words, tone };
    }
    case 'skipped':
      return { words: `was not run: ${oneLine(result.why, 300)}`, tone: 'idle' };
    default:
      return { words: unknownWords(result), tone: 'warn' };
  }
}

export function afterWords(result: StepResult, millis: number): string {
  const { words } = resultWords(result);
  return result.result === 'skipped' || result.result === 'not_started' ? words : `${words} after ${duration(millis)}`;
}

export function causeWords(cause: CancelCause): string {
  switch (cause.cause) {
    case 'operator':
      return 'by you';
    case 'bound':
      return `by a bound: ${oneLine(cause.what, 200)}`;
    default:
      return unknownWords(cause);
  }
}

/** Where a run stands, as the rest of "the run …". */
export function stateWords(state: RunState): string {
  switch (state.state) {
    case 'provisioning':
      return 'is being prepared';
    case 'running':
      return `is at step ${oneLine(state.step, 60)}`;
    case 'stopping':
      return `is being stopped ${causeWords(state.cause)}`;
    case 'review':
      return `waits for your review${state.agent_succeeded ? '' : '; its agent did not succeed'}`;
    case 'no_changes':
      return 'ended without changes';
    case 'failed':
      return `failed: ${oneLine(state.reason.message, 300)}`;
    case 'cancelled':
      return `was stopped ${causeWords(state.by)}`;
    case 'interrupted':
      return `was interrupted: ${oneLine(state.reason.message, 300)}`;
    case 'merging':
      return 'is being merged';
    case 'merged':
      return `was merged as ${short(state.commit)}`;
    case 'discarded':
      return `was discarded; its snapshot is ${oneLine(state.snapshot, 200)}`;
    default:
      return unknownWords(state);
  }
}

export function blockWords(block: Block): { words: string; tone: Tone } {
  const { file, subject: tried } = block;
  if (tried.type === 'bound') return boundBlockWords(block, tried.bound);
  const subject =
    tried.type === 'file' && file && file.different > 1
      ? `${tried.access} ${String(file.different)} paths in ${oneLine(file.folder, 300)}`
      : subjectWords(tried);
  switch (block.state) {
    case 'open':
      if (tried.type === 'question') return { words: `${subject} waits for your answer`, tone: 'accent' };
      return {
        words: `${subject} is held, ${count(block.waiting, 'action')} waiting: ${oneLine(block.why, 200)}`,
        tone: 'accent',
      };
    case 'amended':
      return { words: `${subject} was let go by ${oneLine(block.amendment, 40)}`, tone: 'good' };
    case 'denied':
      return {
        words: `${subject} was refused${block.reason === '' ? '' : `: ${oneLine(block.reason, 200)}`}`,
        tone: 'bad',
      };
    case 'expired':
      return { words: `${subject}: nobody decided in time`, tone: 'warn' };
    case 'gone':
      return { words: `${subject}: every process behind it ended or gave up`, tone: 'idle' };
    default:
      return { words: `${subject}: ${unknownWords(block)}`, tone: 'warn' };
  }
}

/** A run at its bound: whether it waits there, and what became of it. */
function boundBlockWords(block: Block, bound: BoundKind): { words: string; tone: Tone } {
  const subject = `bound of ${boundName(bound)}`;
  const at = block.breach ? `${subject}, ${breachWords(block.breach)}` : subject;
  const isPaused = pausesAt(bound);
  switch (block.state) {
    case 'open':
      return isPaused
        ? { words: `the run is paused at its ${at}`, tone: 'accent' }
        : { words: `${at}: more is refused to the run, which goes on`, tone: 'warn' };
    case 'amended': {
      const what = isPaused ? 'was raised' : 'was raised for later runs';
      return { words: `${subject} ${what} by ${oneLine(block.amendment, 40)}`, tone: 'good' };
    }
    case 'denied': {
      const reason = block.reason === '' ? '' : `: ${oneLine(block.reason, 200)}`;
      return { words: `${subject} was not raised${isPaused ? ', the run is stopped' : ''}${reason}`, tone: 'bad' };
    }
    case 'expired':
      return { words: `${subject}: nobody decided in time, the run is stopped`, tone: 'warn' };
    case 'gone':
      return isPaused
        ? { words: `${subject}: the run does not wait there any more`, tone: 'idle' }
        : { words: `${at}: more is refused to the run, which goes on`, tone: 'warn' };
    default:
      return { words: `${subject}: ${unknownWords(block)}`, tone: 'warn' };
  }
}

export function amendmentWords(amendment: Amendment): { words: string; tone: Tone } {
  const words = oneLine(amendment.words, 300);
  switch (amendment.state) {
    case 'active':
      return { words: `in force: ${words}`, tone: amendment.decision === 'deny' ? 'bad' : 'good' };
    case 'revoked':
      return { words: `revoked: ${words}`, tone: 'warn' };
    case 'lapsed':
      return { words: `lapsed: ${words}`, tone: 'idle' };
    default:
      return { words: `${unknownWords(amendment.state)}: ${words}`, tone: 'warn' };
  }
}

/** The beginning of a commit's name. */
export function short(commit: string): string {
  return visibleText(commit.slice(0, 10));
}

/** What this window has no words for, as it came. */
function unknownWords(value: unknown): string {
  return oneLine(JSON.stringify(value), 300);
}
