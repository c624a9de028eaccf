import type { RowSource } from './source';

/** Longest wait of one request for news. */
const LONG_POLL_MS = 10_000;
/**
 * Shortest time from an answer to the next request. Nobody reads lines that change more often than this, and every
 * change is a frame that a key has to wait for.
 */
const PAUSE_MS = 50;

/** Keeps the end of a feed up to date while it is followed. */
export interface Tailing {
  /** Something changed that may let it go on: the end moved, the view follows again, a retry. */
  wake(): void;
  stop(): void;
}

export interface TailingParts {
  source: () => RowSource;
  /** False while nobody looks at the end. */
  isOn: () => boolean;
  pause: (ms: number) => Promise<void>;
}

/** One request at a time; a new one no sooner than a pause after the last answer. */
export function startTailing(parts: TailingParts): Tailing {
  let isStopped = false;
  let isWoken = false;
  let release: (() => void) | null = null;

  function wake(): void {
    isWoken = true;
    release?.();
    release = null;
  }

  async function sleep(): Promise<void> {
    if (isWoken || isStopped) return;
    await new Promise<void>((resolve) => {
      release = resolve;
    });
  }

  async function loop(): Promise<void> {
    while (!isStopped) {
      isWoken = false;
      if (!parts.isOn()) {
        await sleep();
        continue;
      }
      const outcome = await parts.source().tail(LONG_POLL_MS);
      if (outcome === 'more' || outcome === 'caught_up') await parts.pause(PAUSE_MS);
      else await sleep();
    }
  }

  void loop();
  return {
    wake,
    stop() {
      isStopped = true;
      wake();
    },
  };
}
