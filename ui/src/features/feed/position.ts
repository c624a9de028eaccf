import type { RowSource } from './source';
import { ROW_HEIGHT, clampTop, isAtEnd, lastTop, spanAt } from './scale';
import type { Box, Span } from './scale';

/**
 * Where the list stands, kept by event: whatever changes above, the row that was at the window's edge
 * stays there. Following, it is the end that stays.
 */
export class Position {
  top = 0;
  height = 0;
  private anchor: { seq: number; offset: number } | null = null;

  constructor(private source: RowSource) {}

  get box(): Box {
    return { rows: this.source.count, height: this.height };
  }

  get isAtEnd(): boolean {
    return isAtEnd(this.top, this.box);
  }

  /** Shows another list, at the same event where it has it. */
  use(source: RowSource): void {
    this.source = source;
  }

  /** Goes to a place because somebody asked for it. */
  moveTo(top: number): void {
    this.top = clampTop(Math.round(top), this.box);
    this.remember();
  }

  /** Finds the place again after rows came or went. */
  settle(isFollowing: boolean): void {
    const box = this.box;
    if (isFollowing || this.anchor === null) {
      this.top = lastTop(box);
      this.remember();
      return;
    }
    const row = this.source.indexOf(this.anchor.seq);
    this.top = clampTop(row * ROW_HEIGHT + this.anchor.offset, box);
  }

  span(): Span {
    return spanAt(this.top, this.box);
  }

  private remember(): void {
    if (this.source.count === 0) {
      this.anchor = null;
      return;
    }
    const row = Math.floor(this.top / ROW_HEIGHT);
    this.anchor = { seq: this.source.seqAt(row), offset: this.top - row * ROW_HEIGHT };
  }
}
