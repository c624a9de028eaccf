import { mount } from '@vue/test-utils';
import { effectScope, nextTick } from 'vue';
import { afterEach, describe, expect, it, vi } from 'vitest';
import CommandPalette from './CommandPalette.vue';
import { paletteIsOpen, useActions } from './palette';

describe('palette', () => {
  const scope = effectScope();
  afterEach(() => {
    scope.stop();
    document.body.replaceChildren();
  });

  it('runs what is chosen by keys, and never what cannot be done', async () => {
    vi.useFakeTimers();
    const ran: string[] = [];
    scope.run(() =>
      useActions(() => [
        { id: 'off', title: 'Merge this run', disabled: 'Checks are at work', run: () => ran.push('off') },
        { id: 'pause', title: 'Pause queue', run: () => ran.push('pause') },
        { id: 'theme', title: 'Use the light theme', run: () => ran.push('theme') },
      ]),
    );
    const palette = mount(CommandPalette, { attachTo: document.body });
    paletteIsOpen.value = true;
    await nextTick();
    await nextTick();
    const field = document.querySelector<HTMLInputElement>('[role="combobox"]');
    const press = async (key: string): Promise<void> => {
      field?.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true, cancelable: true }));
      await nextTick();
    };
    expect([...document.querySelectorAll('[role="option"]')].map((option) => option.textContent)).toEqual(['Pause queue', 'Use the light theme', 'Merge this runChecks are at work']);
    await press('ArrowUp');
    await press('Enter');
    expect([paletteIsOpen.value, ran]).toEqual([true, []]);
    await press('ArrowDown');
    await press('ArrowDown');
    expect(document.querySelector('[aria-selected="true"]')?.textContent).toContain('Use the light theme');
    await press('Enter');
    vi.runAllTimers();
    expect([paletteIsOpen.value, ran]).toEqual([false, ['theme']]);
    palette.unmount();
    vi.useRealTimers();
  });
});
