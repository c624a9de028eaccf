import { beforeEach, describe, expect, it } from 'vitest';
import { emptyForm } from './form';
import { forgetForm, loadForm, readForm, saveForm, withLink } from './keep';

describe('what was typed', () => {
  beforeEach(() => localStorage.clear());

  it('comes back', () => {
    const form = { ...emptyForm(), title: 'x', allow: ['a:1'] };
    expect(saveForm(localStorage, form)).toBe(true);
    expect(loadForm(localStorage)).toEqual(form);
    forgetForm(localStorage);
    expect(loadForm(localStorage)).toBeNull();
  });
  it('of another version or damaged does no harm', () => {
    expect(readForm('{')).toBeNull();
    expect(readForm('{"title":"x","allow":"a","checks":[1],"strange":true}')).toEqual({ ...emptyForm(), title: 'x' });
  });
  it('says when it cannot be kept', () => {
    const full = { getItem: () => null, removeItem: () => undefined, setItem: () => { throw new Error('full'); } };
    expect(saveForm(full, { ...emptyForm(), title: 'x' })).toBe(false);
  });
});

describe('a link', () => {
  it('fills fields and nothing else', () => {
    const { form, replaced } = withLink({ ...emptyForm(), command: 'make' }, { title: 't', prompt: null, repo: '/r' });
    expect(form).toEqual({ ...emptyForm(), command: 'make', title: 't', repo: '/r' });
    expect(replaced).toBe(false);
  });
  it('is said to have replaced what was typed', () => {
    expect(withLink({ ...emptyForm(), title: 'mine' }, { title: 'theirs' }).replaced).toBe(true);
  });
});
