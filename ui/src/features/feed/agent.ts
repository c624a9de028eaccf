import type { AgentEvent, AgentOutcome, Event } from '@/ipc/bindings';
import { count, figure } from '@/lib/count';
import type { Tone } from '@/lib/state';
import { oneLine } from '@/lib/text';

/** How an agent ended, after "the agent". */
export const OUTCOMES: Readonly<Record<AgentOutcome, string>> = {
  completed: 'completed',
  completed_with_denials: 'completed, with denials',
  agent_error: 'gave up with an error',
  model_unreachable: 'could not reach its model',
  authentication_failed: 'was turned away by its model’s provider',
  cancelled: 'was cancelled',
  killed: 'was killed',
  lost: 'is gone without saying how it ended',
};

/** How an agent ended, with its reason. Visible. */
export function outcomeWords(outcome: AgentOutcome, why: string): { words: string; tone: Tone } {
  const words = Object.hasOwn(OUTCOMES, outcome) ? OUTCOMES[outcome] : oneLine(outcome, 40);
  const tone = outcome === 'completed' ? 'good' : outcome === 'completed_with_denials' ? 'warn' : 'bad';
  return { words: why === '' ? words : `${words}: ${oneLine(why, 300)}`, tone };
}

/** What an agent said, as its driver understood it: one row of the feed. */
export function agentRow(
  event: Extract<Event, { kind: 'agent' }> & AgentEvent,
  longest: number,
): { tone: Tone; word: string; text: string; isMachine?: boolean } {
  const line = (text: string): string => oneLine(text, longest);
  switch (event.said) {
    case 'session':
      return { tone: 'idle', word: 'session', text: line(`${event.session}${event.model ? `, model ${event.model}` : ''}`) };
    case 'message':
      return { tone: 'accent', word: 'says', text: line(event.text) };
    case 'thought':
      return { tone: 'idle', word: 'thinks', text: line(event.text) };
    case 'tool_started':
      return { tone: 'busy', word: 'calls', text: line(`${event.tool} ${event.arguments}`), isMachine: true };
    case 'tool_ended':
      return { tone: event.failed ? 'warn' : 'idle', word: event.failed ? 'failed' : 'gave', text: line(event.result), isMachine: true };
    case 'edit':
      return { tone: 'good', word: 'edits', text: line(event.file), isMachine: true };
    case 'permission_asked':
      return { tone: 'accent', word: 'asks', text: line(`${event.tool} ${event.arguments}`), isMachine: true };
    case 'permission_answered':
      return { tone: 'accent', word: 'answered', text: line(event.answer.replace('_', ' ')) };
    case 'told':
      return { tone: 'accent', word: 'you say', text: line(event.text) };
    case 'given':
      return { tone: 'accent', word: 'given', text: `the agent has it as its next prompt${event.waiting > 0 ? `; ${count(event.waiting, 'message')} more` : ''}` };
    case 'limited': {
      const seconds = event.after_seconds ?? null;
      const until = (event.resets_at ?? null) !== null ? ` until ${event.resets_at ?? ''}` : seconds === null ? '' : ` for ${count(seconds, 'second')}`;
      return { tone: 'warn', word: 'limit', text: line(`the provider of its model lets it do no more${until}`) };
    }
    case 'replayed':
      return { tone: 'idle', word: 'past', text: `told again (${count(event.updates, 'update')}), and not shown` };
    case 'usage': {
      const cost = event.cost_microusd ?? null;
      const price = cost === null ? '' : `, $${(cost / 1e6).toFixed(4)}`;
      const read = `${count(event.input, 'token')} read, ${figure(event.cached)} from a cache`;
      return { tone: 'idle', word: event.total ? 'used' : 'uses', text: `${read}, ${figure(event.output)} written${price}` };
    }
    case 'retry':
      return { tone: 'warn', word: 'retries', text: line(`model not reached: ${event.why}`) };
    case 'problem':
      return { tone: 'warn', word: 'problem', text: line(event.message) };
    case 'unknown':
      return { tone: 'idle', word: 'message', text: line(`of a kind that is not known: ${event.name}`) };
    case 'unreadable':
      return { tone: 'warn', word: 'message', text: line(event.why) };
    case 'ended': {
      const { words, tone } = outcomeWords(event.outcome, event.why);
      return { tone, word: 'agent', text: `the agent ${words}` };
    }
    default:
      return { tone: 'warn', word: 'agent', text: 'said something that this window does not know' };
  }
}
