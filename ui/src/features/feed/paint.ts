import { figure } from '@/lib/count';
import type { RowView } from './format';

/** A row that is seen. Its view is absent until the event is here. */
export interface SeenRow {
  index: number;
  seq: number;
  view: RowView | null;
}

/** What the list shows at one moment. */
export interface Frame {
  rows: readonly SeenRow[];
  count: number;
  track: number;
  height: number;
  offset: number;
}

/** The elements that a frame is written to. */
export interface Canvas {
  root: HTMLElement;
  track: HTMLElement;
  window: HTMLElement;
  rows: HTMLElement;
}

/**
 * Writes frames into elements. A feed moves with each frame that the machine can draw, so this is done by hand:
 * row elements stay and are taken round as the list scrolls, text goes into text nodes that stay as well (a new
 * text node is laid out from nothing), and only what differs from the frame before is written. Nothing is read
 * back. Text of a run is only ever the data of a text node.
 */
export class Painter {
  private readonly slots: Slot[] = [];
  private readonly trackHeight: Style;
  private readonly windowHeight: Style;
  private readonly shift: Style;
  private first = 0;
  private count = -1;
  private active = '';

  constructor(
    private readonly canvas: Canvas,
    /** Begins the ids of rows. */
    private readonly id: string,
  ) {
    this.trackHeight = new Style(canvas.track, 'height');
    this.windowHeight = new Style(canvas.window, 'height');
    this.shift = new Style(canvas.rows, 'transform');
  }

  paint(frame: Frame, selected: number | null): void {
    this.trackHeight.set(`${Math.max(frame.track, frame.height)}px`);
    this.windowHeight.set(`${frame.height}px`);
    this.shift.set(`translateY(${-frame.offset}px)`);
    if (this.count !== frame.count) {
      this.count = frame.count;
      this.canvas.root.setAttribute('aria-rowcount', `${frame.count}`);
    }
    this.fit(frame.rows.length);
    this.turn(frame.rows[0]?.index ?? 0);
    let active = '';
    for (const [at, row] of frame.rows.entries()) {
      const id = `${this.id}-${row.seq}`;
      this.slots[at]?.show(row, id, row.seq === selected);
      if (row.seq === selected) active = id;
    }
    if (active === this.active) return;
    this.active = active;
    if (active === '') this.canvas.root.removeAttribute('aria-activedescendant');
    else this.canvas.root.setAttribute('aria-activedescendant', active);
  }

  private fit(rows: number): void {
    while (this.slots.length > rows) this.slots.pop()?.row.remove();
    while (this.slots.length < rows) {
      const slot = new Slot();
      this.slots.push(slot);
      this.canvas.rows.append(slot.row);
    }
  }

  /** Rows that leave on one side come in on the other; when most of them do, all are written where they are. */
  private turn(first: number): void {
    const by = first - this.first;
    this.first = first;
    if (by === 0 || Math.abs(by) > this.slots.length / 2) return;
    if (by > 0) {
      const moved = this.slots.splice(0, by);
      this.slots.push(...moved);
      this.canvas.rows.append(...moved.map((slot) => slot.row));
    } else {
      const moved = this.slots.splice(by);
      this.slots.unshift(...moved);
      this.canvas.rows.prepend(...moved.map((slot) => slot.row));
    }
  }
}

/** One style of one element, written when it changes. */
class Style {
  private now = '';

  constructor(
    private readonly element: HTMLElement,
    private readonly name: 'height' | 'transform',
  ) {}

  set(value: string): void {
    if (value === this.now) return;
    this.now = value;
    this.element.style[this.name] = value;
  }
}

/** A cell whose text is one node. */
class Cell {
  readonly element = document.createElement('span');
  private readonly node = document.createTextNode('');
  private said = '';
  private isPlain = true;

  constructor(private name: string) {
    this.element.setAttribute('role', 'gridcell');
    this.element.className = name;
    this.element.append(this.node);
  }

  say(text: string): void {
    if (!this.isPlain) {
      this.isPlain = true;
      this.element.replaceChildren(this.node);
    }
    if (text === this.said) return;
    this.said = text;
    this.node.data = text;
  }

  /** Text in its colours: the only case in which elements come and go. */
  colour(stretches: NonNullable<RowView['stretches']>): void {
    this.isPlain = false;
    this.element.replaceChildren(
      ...stretches.map(({ text, style }) => {
        const part = document.createElement('span');
        part.className = style;
        part.append(document.createTextNode(text));
        return part;
      }),
    );
  }

  call(name: string): void {
    if (name === this.name) return;
    this.name = name;
    this.element.className = name;
  }
}

/** The elements of one row. */
class Slot {
  readonly row = document.createElement('div');
  private readonly time = new Cell('feed-time');
  private readonly step = new Cell('feed-step');
  private readonly word = new Cell('feed-word');
  private readonly text = new Cell('feed-text');
  private index = -1;
  private seq = -1;
  private view: RowView | null | undefined;
  private tone = '';
  private isSelected = false;

  constructor() {
    const mark = document.createElement('i');
    mark.className = 'feed-mark';
    mark.setAttribute('aria-hidden', 'true');
    this.word.element.prepend(mark);
    this.row.className = 'feed-row';
    this.row.setAttribute('role', 'row');
    this.row.setAttribute('aria-selected', 'false');
    this.row.dataset['testid'] = 'feed-row';
    this.row.append(...[this.time, this.step, this.word, this.text].map((cell) => cell.element));
  }

  show(row: SeenRow, id: string, isSelected: boolean): void {
    if (isSelected !== this.isSelected) {
      this.isSelected = isSelected;
      this.row.setAttribute('aria-selected', `${isSelected}`);
    }
    if (row.index !== this.index) {
      this.index = row.index;
      this.row.setAttribute('aria-rowindex', `${row.index + 1}`);
    }
    if (row.seq === this.seq && row.view === this.view) return;
    if (row.seq !== this.seq) {
      this.seq = row.seq;
      this.row.id = id;
      this.row.dataset['seq'] = `${row.seq}`;
    }
    this.view = row.view;
    this.say(row.view, row.seq);
  }

  private say(view: RowView | null, seq: number): void {
    const tone = view?.tone ?? '';
    if (tone !== this.tone) {
      this.tone = tone;
      this.row.className = tone === '' ? 'feed-row' : `feed-row feed-${tone}`;
    }
    this.time.say(view?.time ?? figure(seq));
    this.step.say(view?.step ?? '');
    this.word.say(view?.word ?? 'loading');
    this.text.call(view?.isMachine === true ? 'feed-text feed-machine' : 'feed-text');
    const stretches = view?.stretches ?? null;
    if (stretches === null) this.text.say(view?.text ?? '');
    else this.text.colour(stretches);
  }
}
