// Editing an order that has not started: only what was changed is sent.

import type { OrderChanges, OrderView } from '@/ipc/bindings';
import { joinArgs, splitArgs } from './argv';
import { filled } from './form';

export interface Edit {
  title: string;
  command: string;
  prompt: string;
  base: string;
  gate: OrderView['gate'];
  scope: string[];
  dependsOn: string[];
  priority: boolean;
  notBefore: string;
  retries: string;
}

/** A time as a `datetime-local` field has it, in this machine's zone. */
export function localTime(at: string | null | undefined): string {
  if (!at || Number.isNaN(Date.parse(at))) return '';
  const time = new Date(at);
  return new Date(time.getTime() - time.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

export function editOf(order: OrderView): Edit {
  return {
    title: order.title,
    command: joinArgs(order.argv),
    prompt: order.prompt ?? '',
    base: order.base ?? '',
    gate: order.gate,
    scope: [...(order.scope?.patterns ?? [])],
    dependsOn: [...order.depends_on],
    priority: order.hints.priority ?? false,
    notBefore: localTime(order.hints.not_before),
    retries: String(order.hints.retries ?? 0),
  };
}

/** What is wrong with an edit, by field. */
export function editFaults(edit: Edit): Partial<Record<keyof Edit, string>> {
  const faults: Partial<Record<keyof Edit, string>> = {};
  const { argv, fault } = splitArgs(edit.command);
  if (fault !== null) faults.command = fault;
  else if (argv.length === 0) faults.command = 'Write the command of the agent.';
  else if (argv.some((word) => word.includes('{prompt}')) && edit.prompt.trim() === '') faults.command = 'The command has {prompt} and there is no prompt.';
  if (!/^\d{1,2}$/.test(edit.retries.trim()) || Number(edit.retries) > 20) faults.retries = 'Write a whole number from 0 to 20.';
  return faults;
}

/** The changes to send; nothing when there are none. */
export function changesOf(order: OrderView, edit: Edit): OrderChanges | null {
  const before = editOf(order);
  const differs = (field: keyof Edit): boolean => JSON.stringify(before[field]) !== JSON.stringify(edit[field]);
  const changes: OrderChanges = { order: order.id };
  if (differs('title')) changes.title = edit.title.trim();
  if (differs('command')) changes.argv = [...splitArgs(edit.command).argv];
  if (differs('prompt')) changes.prompt = edit.prompt;
  if (differs('base') && edit.base.trim() !== '') changes.base = edit.base.trim();
  if (differs('gate')) changes.gate = edit.gate;
  if (differs('dependsOn')) changes.depends_on = filled(edit.dependsOn);
  if (differs('scope')) changes.scope = { ...(order.scope ?? {}), patterns: filled(edit.scope) };
  if (differs('priority') || differs('notBefore') || differs('retries')) {
    const { not_before: old, ...hints } = order.hints;
    const at = differs('notBefore') ? (edit.notBefore === '' ? null : new Date(edit.notBefore).toISOString()) : (old ?? null);
    changes.hints = { ...hints, priority: edit.priority, retries: Number(edit.retries), ...(at === null ? {} : { not_before: at }) };
  }
  return Object.keys(changes).length > 1 ? changes : null;
}
