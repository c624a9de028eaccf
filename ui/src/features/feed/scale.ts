/**
 * Where a list of fixed-height rows stands. Places are pixels of the whole list (`top`), which may be
 * far longer than an element can be; the scroll bar moves over a track of at most `LONGEST_TRACK`.
 */

/** Height of a row. */
export const ROW_HEIGHT = 24;
/** Engines clamp an element's height at some tens of millions of pixels; this is well below. */
export const LONGEST_TRACK = 8_000_000;
/** Rows mounted at one time, whatever the height of the window. */
export const MOST_ROWS = 98;
/** So no window is higher than what is mounted fills. */
export const MOST_HEIGHT = (MOST_ROWS - 1) * ROW_HEIGHT;

/** The list and its window. */
export interface Box {
  rows: number;
  height: number;
}

/** The rows to mount. */
export interface Span {
  first: number;
  /** One past the last. */
  end: number;
  /** How far the first row is above the window's edge. */
  offset: number;
}

/** Height of the element that makes the scroll bar. */
export function trackHeight(box: Box): number {
  return Math.min(box.rows * ROW_HEIGHT, LONGEST_TRACK);
}

/** The greatest `top`. */
export function lastTop(box: Box): number {
  return Math.max(0, box.rows * ROW_HEIGHT - box.height);
}

/** True when the scroll bar is finer than the list: then every step is made by hand. */
export function isScaled(box: Box): boolean {
  return box.rows * ROW_HEIGHT > LONGEST_TRACK;
}

export function clampTop(top: number, box: Box): number {
  return Math.min(Math.max(0, top), lastTop(box));
}

/** The scroll bar's place for a place in the list. */
export function toTrack(top: number, box: Box): number {
  const range = lastTop(box);
  if (range === 0) return 0;
  return (clampTop(top, box) / range) * Math.max(0, trackHeight(box) - box.height);
}

/** The place in the list for the scroll bar's place. */
export function fromTrack(scrollTop: number, box: Box): number {
  const track = Math.max(0, trackHeight(box) - box.height);
  if (track === 0) return 0;
  return clampTop((scrollTop / track) * lastTop(box), box);
}

/** Rows that are mounted: as many as the window shows at most, always the same number, so that they are reused. */
export function mounted(box: Box): number {
  return Math.min(box.rows, Math.ceil(box.height / ROW_HEIGHT) + 1, MOST_ROWS);
}

/** The rows to mount for a place. */
export function spanAt(top: number, box: Box): Span {
  const at = clampTop(top, box);
  const rows = mounted(box);
  const first = Math.max(0, Math.min(Math.floor(at / ROW_HEIGHT), box.rows - rows));
  return { first, end: first + rows, offset: at - first * ROW_HEIGHT };
}

/** The place nearest to `top` at which a row is seen whole. */
export function reveal(row: number, top: number, box: Box): number {
  const start = row * ROW_HEIGHT;
  if (start < top) return clampTop(start, box);
  if (start + ROW_HEIGHT > top + box.height) return clampTop(start + ROW_HEIGHT - box.height, box);
  return clampTop(top, box);
}

/** The place at which a row stands in the middle of the window. */
export function centre(row: number, box: Box): number {
  return clampTop(row * ROW_HEIGHT - (box.height - ROW_HEIGHT) / 2, box);
}

export function isAtEnd(top: number, box: Box): boolean {
  return top >= lastTop(box) - 1;
}

/** Rows that a page key moves by. */
export function pageOf(box: Box): number {
  return Math.max(1, Math.floor(box.height / ROW_HEIGHT) - 1);
}
