import { onBeforeUnmount, onMounted, watch } from 'vue';
import type { Ref } from 'vue';
import { formatEvent } from './format';
import type { RowView } from './format';
import type { Frame, SeenRow } from './paint';
import { Position } from './position';
import type { FeedRow } from './row';
import { ROW_HEIGHT, centre, fromTrack, isScaled, lastTop, pageOf, reveal, toTrack, trackHeight } from './scale';
import type { RowSource } from './source';

interface Options {
  root: Readonly<Ref<HTMLElement | null>>;
  source: () => RowSource;
  isFollowing: () => boolean;
  /** Shows a frame. */
  paint: (frame: Frame) => void;
  /** The operator scrolled; whether they are at the end now. */
  scrolled: (atEnd: boolean) => void;
}

/** A scroll bar that is finer than the list is not moved under the hand that holds it, only after. */
const HELD_MS = 150;

/** The list's scrolling and rendering. Rows are drawn within the scroll event: nothing blank is ever seen. */
export function useScaledList(options: Options) {
  let frame: Frame = { rows: [], count: 0, track: 0, height: 0, offset: 0 };
  const position = new Position(options.source());
  let echo = 0;
  let scrolledAt = -HELD_MS;
  let observer: ResizeObserver | null = null;

  function draw(): void {
    const box = position.box;
    const { first, end, offset } = position.span();
    options.source().want(first, end);
    const rows: SeenRow[] = [];
    for (let index = first; index < end; index += 1) {
      const row = options.source().at(index);
      rows.push({ index, seq: row?.seq ?? options.source().seqAt(index), view: row === null ? null : viewOf(row) });
    }
    frame = { rows, count: box.rows, track: trackHeight(box), height: box.height, offset };
    options.paint(frame);
  }

  /** Moves the scroll bar to where the list stands. Reads nothing back: that would make the page be laid out twice. */
  function tell(): void {
    const root = options.root.value;
    if (root === null || (isScaled(position.box) && performance.now() - scrolledAt < HELD_MS)) return;
    const wanted = Math.round(toTrack(position.top, position.box));
    if (wanted === echo) return;
    echo = wanted;
    root.scrollTop = wanted;
  }

  /** The scroll bar first, while nothing waits to be laid out; unless its track has to grow for that. */
  function show(): void {
    const isSameTrack = frame.track === trackHeight(position.box) && frame.height === position.height;
    if (isSameTrack) tell();
    draw();
    if (!isSameTrack) tell();
  }

  function refresh(): void {
    position.use(options.source());
    position.settle(options.isFollowing());
    show();
  }

  /** Goes to a place that was asked for by keys, wheel or a jump. */
  function goTo(top: number): void {
    position.moveTo(top);
    scrolledAt = -HELD_MS;
    show();
  }

  function onScroll(): void {
    const root = options.root.value;
    const at = root?.scrollTop ?? echo;
    if (Math.abs(at - echo) < 1) return;
    echo = at;
    scrolledAt = performance.now();
    const isLast = at >= frame.track - frame.height - 1;
    position.moveTo(isLast ? lastTop(position.box) : fromTrack(at, position.box));
    draw();
    options.scrolled(position.isAtEnd);
  }

  /** Where the scroll bar is finer than the list, a turn of the wheel moves by its exact pixels. */
  function onWheel(event: WheelEvent): void {
    if (event.ctrlKey || event.deltaY === 0 || !isScaled(position.box)) return;
    event.preventDefault();
    const unit = event.deltaMode === 1 ? ROW_HEIGHT : event.deltaMode === 2 ? position.height : 1;
    goTo(position.top + event.deltaY * unit);
    options.scrolled(position.isAtEnd);
  }

  function measure(): void {
    const height = options.root.value?.clientHeight ?? 0;
    if (height === position.height) return;
    position.height = height;
    refresh();
  }

  onMounted(() => {
    const root = options.root.value;
    if (root === null) return;
    measure();
    observer = new ResizeObserver(measure);
    observer.observe(root);
  });
  onBeforeUnmount(() => observer?.disconnect());
  watch([options.source, options.isFollowing], refresh);

  return {
    draw,
    /** Rows came or went. */
    refresh,
    count: () => position.box.rows,
    onScroll,
    onWheel,
    /** The rows that are seen, from the first to the last. */
    seen(): [number, number] {
      const top = position.top;
      return [Math.floor(top / ROW_HEIGHT), Math.max(0, Math.ceil((top + position.height) / ROW_HEIGHT) - 1)];
    },
    page: () => pageOf(position.box),
    reveal: (index: number) => goTo(reveal(index, position.top, position.box)),
    centre: (index: number) => goTo(centre(index, position.box)),
    isAtEnd: () => position.isAtEnd,
  };
}

function viewOf(row: FeedRow): RowView {
  row.view ??= formatEvent(row.event);
  return row.view;
}
