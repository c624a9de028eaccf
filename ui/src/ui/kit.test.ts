import { mount } from '@vue/test-utils';
import { defineComponent, h, nextTick } from 'vue';
import { describe, expect, it, vi } from 'vitest';
import { keyWords } from './key-words';
import { sparkPaths } from './spark';
import { useToasts } from './toasts';
import UiButton from './UiButton.vue';
import UiDialog from './UiDialog.vue';
import UiFailure from './UiFailure.vue';
import UiField from './UiField.vue';
import UiInput from './UiInput.vue';
import UiMeter from './UiMeter.vue';
import UiSwitch from './UiSwitch.vue';
import UiTabs from './UiTabs.vue';
import UiText from './UiText.vue';
import UiTextarea from './UiTextarea.vue';
import { dialogIsOpen } from './dialogs';

describe('UiButton', () => {
  it('says why it cannot be pressed, stays reachable, and does nothing', async () => {
    const press = vi.fn();
    const button = mount(UiButton, { props: { disabled: true, reason: 'Checks are at work', onClick: press }, slots: { default: 'Merge' } });
    expect(button.attributes()).toMatchObject({ 'aria-disabled': 'true', title: 'Checks are at work', 'aria-description': 'Checks are at work' });
    expect(button.attributes('disabled')).toBeUndefined();
    await button.trigger('click');
    expect(press).not.toHaveBeenCalled();
    await button.setProps({ disabled: false });
    await button.trigger('click');
    expect(press).toHaveBeenCalledOnce();
  });
  it('is pressed once while it is busy', async () => {
    const press = vi.fn();
    const button = mount(UiButton, { props: { busy: true, onClick: press } });
    await button.trigger('click');
    expect(press).not.toHaveBeenCalled();
    expect(button.attributes('aria-busy')).toBe('true');
  });
});

describe('UiText', () => {
  it('makes no markup of what it shows', () => {
    const text = mount(UiText, { props: { text: '<img src=x onerror=alert(1)>\u202e' } });
    expect(text.element.children).toHaveLength(0);
    expect(text.text()).toBe('<img src=x onerror=alert(1)>⟦U+202E⟧');
  });
  it('cuts a title of 10,000 characters', () => {
    expect(mount(UiText, { props: { text: 'x'.repeat(10_000) } }).text()).toHaveLength(400);
  });
});

describe('fields', () => {
  it('tie label, hint and error to the control', () => {
    const form = mount(defineComponent({ render: () => h(UiField, { label: 'Quota', hint: 'In bytes', error: 'Not an amount' }, () => h(UiInput, { modelValue: 'x' })) }));
    const input = form.get('input');
    expect(form.get('label').attributes('for')).toBe(input.attributes('id'));
    const told = (input.attributes('aria-describedby') ?? '').split(' ').map((id) => form.get(`[id="${id}"]`).text());
    expect(told).toEqual(['In bytes', 'Not an amount']);
    expect(input.attributes('aria-invalid')).toBe('true');
  });
  it('submit text by Ctrl or Command with Enter only', async () => {
    const area = mount(UiTextarea, { props: { modelValue: '' } });
    await area.trigger('keydown', { key: 'Enter' });
    expect(area.emitted('submit')).toBeUndefined();
    await area.trigger('keydown', { key: 'Enter', ctrlKey: true });
    await area.trigger('keydown', { key: 'Enter', metaKey: true });
    expect(area.emitted('submit')).toHaveLength(2);
  });
  it('switch by a button with a state', async () => {
    const toggle = mount(UiSwitch, { props: { modelValue: false, label: 'Notifications' } });
    await toggle.get('[role="switch"]').trigger('click');
    expect(toggle.emitted('update:modelValue')).toEqual([[true]]);
  });
});

describe('UiTabs', () => {
  it('moves by arrow keys and wraps around', async () => {
    const items = [{ id: 'a', label: 'A' }, { id: 'b', label: 'B', count: 1200 }];
    const tabs = mount(UiTabs, { props: { items, modelValue: 'b' }, attachTo: document.body });
    expect(tabs.get('[data-testid="tab-b"]').text()).toContain('1,200');
    expect(tabs.findAll('[role="tab"]').map((tab) => tab.attributes('tabindex'))).toEqual(['-1', '0']);
    await tabs.get('[role="tablist"]').trigger('keydown', { key: 'ArrowRight' });
    expect(tabs.emitted('update:modelValue')).toEqual([['a']]);
    tabs.unmount();
  });
});

describe('UiMeter', () => {
  it('says "not measured" and shows no bar for it', () => {
    const meter = mount(UiMeter, { props: { label: 'CPU', value: null } });
    expect(meter.text()).toContain('not measured');
    expect(meter.find('[role="meter"]').exists()).toBe(false);
    const full = mount(UiMeter, { props: { label: 'CPU', value: 1.7, words: '1.7 of 1' } });
    expect(full.get('[role="meter"]').attributes('aria-valuenow')).toBe('100');
  });
});

describe('UiFailure', () => {
  it('shows what happened, what to do and the code, and offers a retry only when asked to', async () => {
    const failure = mount(UiFailure, { props: { failure: { code: 'busy', message: 'A newer SDF wrote this', hint: 'Install it again.' }, retry: true } });
    expect(failure.text()).toContain('A newer SDF wrote this.');
    expect(failure.text()).toContain('busy');
    await failure.get('button').trigger('click');
    expect(failure.emitted('retry')).toHaveLength(1);
  });
});

describe('UiDialog', () => {
  it('puts focus on its first field and turns bare keys off while it is open', async () => {
    const dialog = mount(UiDialog, { props: { open: true, title: 'Deny' }, slots: { default: '<textarea id="why"></textarea>' }, attachTo: document.body });
    await nextTick();
    await new Promise((resolve) => setTimeout(resolve, 20));
    expect(document.activeElement?.id).toBe('why');
    expect(dialogIsOpen.value).toBe(true);
    dialog.unmount();
    expect(dialogIsOpen.value).toBe(false);
  });
});

describe('toasts', () => {
  it('keep at most four, and bad ones until they are closed', () => {
    vi.useFakeTimers();
    const toasts = useToasts();
    for (let at = 0; at < 5; at += 1) toasts.show({ tone: 'good', text: `${at}` });
    const bad = toasts.show({ tone: 'bad', text: 'bad' });
    expect(toasts.shown.value.map(({ text }) => text)).toEqual(['2', '3', '4', 'bad']);
    vi.advanceTimersByTime(9000);
    expect(toasts.shown.value.map(({ text }) => text)).toEqual(['bad']);
    toasts.dismiss(bad);
    expect(toasts.shown.value).toEqual([]);
    vi.useRealTimers();
  });
});

describe('small parts', () => {
  it('word keys for the machine', () => {
    expect([keyWords('mod+k', false), keyWords('mod+k', true), keyWords('g b', false), keyWords('?', false)]).toEqual([['Ctrl', 'K'], ['⌘', 'K'], ['g', 'b'], ['?']]);
  });
  it('break a line where nothing was measured', () => {
    expect(sparkPaths([0, 2, null, 1], 3, 10)).toEqual(['M0.0 10.0L1.0 0.0', 'M3.0 5.0']);
    expect(sparkPaths([], 3, 10)).toEqual([]);
  });
});
