import { beforeEach, describe, expect, it } from 'vitest';
import type { RowView } from './format';
import { Painter } from './paint';
import type { Frame, SeenRow } from './paint';

const view = (text: string, some: Partial<RowView> = {}): RowView => ({
  time: '10:20:30.405', step: 'agent', tone: 'idle', word: 'out', text, stretches: null, isMachine: true, ...some,
});
const row = (index: number, some: Partial<RowView> = {}): SeenRow => ({ index, seq: index + 1, view: view(`line ${index}`, some) });
const frame = (first: number, rows = 10, some: Partial<RowView> = {}): Frame => ({
  rows: Array.from({ length: rows }, (_, at) => row(first + at, some)), count: 1_000, track: 24_000, height: 240, offset: 0,
});

let root: HTMLElement;
let rows: HTMLElement;
let painter: Painter;
const shown = (): string[] => [...rows.children].map((one) => one.querySelector('.feed-text')?.textContent ?? '');
const lines = (first: number, count = 10): string[] => Array.from({ length: count }, (_, at) => `line ${first + at}`);

beforeEach(() => {
  document.body.innerHTML = '<div id="root"><div id="track"><div id="window"><div id="rows"></div></div></div></div>';
  const find = (id: string): HTMLElement => document.getElementById(id) as HTMLElement;
  [root, rows] = [find('root'), find('rows')];
  painter = new Painter({ root, track: find('track'), window: find('window'), rows }, 'feed');
});

describe('Painter', () => {
  it('shows rows in their order, wherever the list goes, and keeps their elements', () => {
    painter.paint(frame(100), null);
    const elements = new Set(rows.children);
    for (const first of [101, 103, 99, 92, 500, 499, 0, 3, 3, 990]) {
      painter.paint(frame(first), null);
      expect(shown()).toEqual(lines(first));
      expect([...rows.children].map((one) => one.getAttribute('aria-rowindex'))).toEqual(lines(first).map((line) => `${Number(line.slice(5)) + 1}`));
      expect([...rows.children].every((one) => elements.has(one))).toBe(true);
    }
  });

  it('has as many rows as a frame', () => {
    for (const count of [3, 12, 0, 7]) {
      painter.paint(frame(40, count), null);
      expect(shown()).toEqual(lines(40, count));
    }
  });

  it('writes nothing when nothing differs, and text nodes stay', async () => {
    painter.paint(frame(100), 104);
    const texts = [...rows.querySelectorAll('.feed-text')].map((cell) => cell.firstChild);
    const seen: MutationRecord[] = [];
    const observer = new MutationObserver((records) => seen.push(...records));
    observer.observe(root, { subtree: true, childList: true, attributes: true, characterData: true });
    painter.paint(frame(100, 10), 104);
    await Promise.resolve();
    expect(seen.filter((one) => one.type !== 'characterData')).toEqual([]);
    observer.disconnect();
    painter.paint(frame(600), 104);
    expect([...rows.querySelectorAll('.feed-text')].map((cell) => cell.firstChild)).toEqual(texts);
  });

  it('says which row is chosen, as long as it is there', () => {
    painter.paint(frame(100), 105);
    const active = root.getAttribute('aria-activedescendant');
    expect(document.getElementById(active ?? '')?.getAttribute('aria-selected')).toBe('true');
    painter.paint(frame(300), 105);
    expect(root.hasAttribute('aria-activedescendant')).toBe(false);
    expect(rows.querySelectorAll('[aria-selected="true"]').length).toBe(0);
  });

  it('goes from loading to text, to colours and back', () => {
    const one = (text: SeenRow['view']): Frame => ({ ...frame(0, 1), rows: [{ index: 0, seq: 1_234, view: text }] });
    painter.paint(one(null), null);
    expect(rows.textContent).toBe('1,234loading');
    expect(rows.firstElementChild?.className).toBe('feed-row');
    const stretches = [{ text: 'a', style: 'ansi-red' }, { text: '<b>', style: '' }];
    painter.paint(one(view('a<b>', { stretches, tone: 'bad' })), null);
    expect(rows.querySelector('.ansi-red')?.textContent).toBe('a');
    expect(rows.querySelector('b')).toBeNull();
    expect(shown()).toEqual(['a<b>']);
    expect(rows.firstElementChild?.className).toBe('feed-row feed-bad');
    painter.paint(one(view('plain', { isMachine: false })), null);
    expect(shown()).toEqual(['plain']);
    expect(rows.querySelector('.feed-machine')).toBeNull();
  });
});
