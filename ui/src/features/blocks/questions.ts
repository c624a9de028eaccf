// A question of an agent in words. All of its text is the agent's own, and leaves here visible.

import type { Block, Subject } from '@/ipc/bindings';
import { oneLine, visibleText } from '@/lib/text';

type Question = Extract<Subject, { type: 'question' }>;

/** `question of opencode: execute {"command":"rm x"}`, with the arguments cut. */
export function questionWords(question: Question, longest: number): string {
  const what = `question of ${visibleText(question.agent)}: ${visibleText(question.tool)}`;
  return question.arguments === '' ? what : `${what} ${oneLine(question.arguments, longest)}`;
}

/** All that is asked, and which answers the agent offers. */
export function askedLines(block: Block): string[] {
  if (block.subject.type !== 'question') return [];
  const lines = block.subject.arguments === '' ? [] : [visibleText(block.subject.arguments)];
  const offers = (block.question?.options ?? []).map((option) => `“${visibleText(option.words)}”`);
  if (offers.length > 0) lines.push(`It offers: ${offers.join(', ')}.`);
  lines.push('A yes opens no wall: what no rule allows is held all the same.');
  return lines;
}
