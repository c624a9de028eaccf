// What was typed into the order form, kept until it is sent or thrown away.

import { emptyForm } from './form';
import type { OrderForm } from './form';

type Box = Pick<Storage, 'getItem' | 'setItem' | 'removeItem'>;
const KEY = 'sdf.order.draft';

function isLike(value: unknown, model: unknown): boolean {
  if (Array.isArray(model)) return Array.isArray(value) && value.every((item) => typeof item === 'string');
  return typeof value === typeof model;
}

/** A form from kept text; fields that cannot be read are as in an empty one. */
export function readForm(text: string | null): OrderForm | null {
  if (text === null) return null;
  try {
    const kept: unknown = JSON.parse(text);
    if (typeof kept !== 'object' || kept === null) return null;
    const form = emptyForm();
    const good = Object.entries(kept).filter(([field, value]) => Object.hasOwn(form, field) && isLike(value, form[field as keyof OrderForm]));
    return { ...form, ...Object.fromEntries(good) };
  } catch {
    return null;
  }
}

export function loadForm(box: Box): OrderForm | null {
  return readForm(box.getItem(KEY));
}

/** Keeps a form; says false when it could not be kept. */
export function saveForm(box: Box, form: OrderForm): boolean {
  try {
    if (JSON.stringify(form) === JSON.stringify(emptyForm())) box.removeItem(KEY);
    else box.setItem(KEY, JSON.stringify(form));
    return true;
  } catch {
    return false;
  }
}

export function forgetForm(box: Box): void {
  box.removeItem(KEY);
}

/** A form with what a link says in it. It fills fields and starts nothing; what was typed and differs is kept aside. */
export function withLink(form: OrderForm, link: { title?: string | null; prompt?: string | null; repo?: string | null }): { form: OrderForm; replaced: boolean } {
  const given = (['title', 'prompt', 'repo'] as const).filter((field) => (link[field] ?? '') !== '');
  const filledIn = Object.fromEntries(given.map((field) => [field, link[field] ?? '']));
  const replaced = given.some((field) => form[field].trim() !== '' && form[field] !== link[field]);
  return { form: { ...form, ...filledIn }, replaced };
}
