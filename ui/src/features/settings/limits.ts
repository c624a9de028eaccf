/** The queue's caps as an operator types them. Pure. */
import type { LimitsChange, QueueView } from '@/ipc/bindings';

export interface LimitsForm {
  total: string;
  perRepository: string;
  wallHours: string;
  windowHours: string;
}

function typed(n: number | null | undefined, unit = 1): string {
  return n === null || n === undefined ? '' : String(Math.round((n / unit) * 100) / 100);
}

export function formOf(queue: QueueView | null): LimitsForm {
  const limits = queue?.limits;
  return {
    total: typed(limits?.total),
    perRepository: typed(limits?.per_repository),
    wallHours: typed(limits?.budgets?.wall_seconds, 3600),
    windowHours: typed(limits?.budgets?.window_seconds, 3600),
  };
}

type Read = { ok: true; value: number } | { ok: false };

function read(text: string, whole: boolean): Read {
  const trimmed = text.trim();
  // Nothing takes a cap away; on the wire that is 0.
  if (trimmed === '') return { ok: true, value: 0 };
  const value = Number(trimmed);
  return Number.isFinite(value) && value > 0 && (!whole || Number.isInteger(value)) ? { ok: true, value } : { ok: false };
}

export type Errors = Partial<Record<keyof LimitsForm, string>>;

/** What a form changes, or what is wrong with it, by field. */
export function changeOf(form: LimitsForm, before: LimitsForm): { change: LimitsChange } | { errors: Errors } {
  const errors: Errors = {};
  const change: LimitsChange = {};
  const take = (field: keyof LimitsForm, whole: boolean, set: (value: number) => void): void => {
    if (form[field].trim() === before[field]) return;
    const answer = read(form[field], whole);
    if (answer.ok) set(answer.value);
    else errors[field] = whole ? 'A whole number above 0, or nothing for no cap' : 'A number above 0, or nothing for no cap';
  };
  take('total', true, (value) => (change.total = value));
  take('perRepository', true, (value) => (change.per_repository = value));
  take('wallHours', false, (value) => (change.budget_wall_seconds = Math.round(value * 3600)));
  take('windowHours', false, (value) => (change.window_seconds = Math.round(value * 3600)));
  return Object.keys(errors).length > 0 ? { errors } : { change };
}
