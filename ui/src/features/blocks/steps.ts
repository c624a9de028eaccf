// In which step a block was held. A block itself does not say; the event that opened it does. Events are
// read once per run and kept, and only for cards that are in sight.

import { shallowReactive } from 'vue';
import type { BlockId, EventSeq, RunId, StepName } from '@/ipc/bindings';
import { call } from '@/ipc/call';
import { runOfBlock } from '@/live/plan';

const PAGE = 512;
/** A run with more changes of blocks than this is not read to the end for the sake of one word. */
const PAGES = 8;
/** Runs whose steps are kept. */
const KEPT = 200;

interface Reading {
  after: EventSeq;
  pages: number;
  busy: Promise<void>;
  readonly steps: Map<BlockId, StepName>;
}

const readings = new Map<RunId, Reading>();

function readingOf(run: RunId): Reading {
  let reading = readings.get(run);
  if (reading === undefined) {
    reading = { after: 0, pages: 0, busy: Promise.resolve(), steps: shallowReactive(new Map<BlockId, StepName>()) };
    readings.set(run, reading);
    const oldest = readings.keys().next();
    if (readings.size > KEPT && !oldest.done) readings.delete(oldest.value);
  }
  return reading;
}

async function readOn(run: RunId, reading: Reading, wanted: BlockId): Promise<void> {
  while (!reading.steps.has(wanted) && reading.pages < PAGES) {
    const request = { run, after: reading.after, limit: PAGE, wait_ms: 0, kinds: ['block'] };
    const answer = await call.runEvents(request);
    if (!answer.ok) return;
    for (const event of answer.value.events) {
      if (event.kind !== 'block' || !event.step || reading.steps.has(event.block.id)) continue;
      reading.steps.set(event.block.id, event.step);
    }
    reading.after = answer.value.cursor;
    if (answer.value.events.length < PAGE) return;
    reading.pages += 1;
  }
}

/** The step of a block as far as it is known now. Reactive. */
export function stepOf(id: BlockId): StepName | null {
  return readingOf(runOfBlock(id)).steps.get(id) ?? null;
}

/** Finds out in which step a block was held; without an answer the card says nothing about it. */
export async function learnStep(id: BlockId): Promise<void> {
  const run = runOfBlock(id);
  const reading = readingOf(run);
  if (reading.steps.has(id)) return;
  // One after the other: each goes on where the one before it ended.
  reading.busy = reading.busy.then(() => readOn(run, reading, id));
  await reading.busy;
}
