/** What the columns of a row say. Pure. */
import type { RunView, Sample } from '@/ipc/bindings';
import { bytes } from '@/lib/bytes';
import { count, figure } from '@/lib/count';
import { isLive } from '@/lib/state';
import { costWords } from '@/features/blocks/bounds';
import { spentWords } from '@/features/run/spent';
import { oneLine } from '@/lib/text';
import { duration, millisOf, relative, shortDuration } from '@/lib/time';

/** Two lines of a cell and what they mean in full. */
export interface Cell {
  first: string;
  second: string;
  title: string;
}

const NONE = '–';

/** How long it has been going on, or went on; and how old its newest event is. */
export function timeCell(run: RunView, now: number): Cell {
  const began = millisOf(run.created_at) ?? now;
  const ended = millisOf(run.ended_at);
  const took = Math.max(0, (ended ?? now) - began);
  const last = ended !== null ? relative(run.ended_at, now) : (run.last_event_at ?? null) === null ? 'no event' : relative(run.last_event_at, now);
  const title = ended !== null ? `Took ${duration(took)}, ended ${last}` : `For ${duration(took)}, last event ${last === 'no event' ? 'not yet' : last}`;
  return { first: shortDuration(took), second: last, title };
}

/** Commits that its base has by now and it does not build on; absent while that is not known. */
export function behindOf(run: RunView): number | null {
  return run.behind ?? (isLive(run) ? (run.freshness?.behind ?? null) : null);
}

/** Where it started from, and how far that is behind now. */
export function baseCell(run: RunView): Cell {
  const at = run.base_commit.slice(0, 8);
  const behind = behindOf(run);
  const second = behind === null ? at : behind === 0 ? 'up to date' : `${figure(behind)} behind`;
  const said = behind === null ? 'how far it is behind is not known' : second;
  return { first: oneLine(run.base_branch, 40), second, title: `Base ${oneLine(run.base_branch, 200)} at ${at}, ${said}` };
}

/** How much it changed. */
export function changesCell(run: RunView): Cell {
  const changes = run.changes ?? null;
  if (changes === null) return { first: NONE, second: '', title: 'Changes are not known' };
  const { files, added, removed } = changes;
  if (files === 0) return { first: 'none', second: '', title: 'No changes' };
  return {
    first: `+${figure(added)} −${figure(removed)}`,
    second: count(files, 'file'),
    title: `${count(files, 'file')}: ${count(added, 'line')} added, ${count(removed, 'line')} removed`,
  };
}

/** Memory and processes, as measured last. */
export function loadCell(run: RunView, sample: Sample | null): Cell {
  const used = spentWords(run.spent ?? null);
  const told = used === null ? '' : `; its agent used ${used}`;
  if (!isLive(run)) return { ...spentCell(run), title: `Nothing of it runs${told}` };
  const memory = sample?.memory_bytes ?? null;
  const processes = sample?.processes ?? null;
  if (memory === null && processes === null) return { first: NONE, second: '', title: 'Memory and processes are not measured' };
  const first = memory === null ? NONE : bytes(memory);
  const second = processes === null ? '' : `${figure(processes)} proc`;
  const said = processes === null ? 'processes not measured' : count(processes, 'process', 'processes');
  return { first, second, title: `Memory ${memory === null ? 'not measured' : first}, ${said}${told}` };
}

/** What the agent of a run that is over has used. */
function spentCell(run: RunView): { first: string; second: string } {
  const cost = run.spent?.cost_microusd ?? null;
  const tokens = run.spent?.tokens ?? null;
  return { first: cost === null ? NONE : costWords(cost), second: tokens === null ? '' : count(tokens, 'token') };
}

/** What was blocked and what was let through. */
export function actionsCell(run: RunView): Cell {
  const blocked = run.subjects_blocked ?? 0;
  const allowed = run.subjects_allowed ?? 0;
  return {
    first: `${figure(blocked)} blocked`,
    second: `${figure(allowed)} allowed`,
    title: `${count(blocked, 'subject')} blocked, ${count(allowed, 'subject')} allowed`,
  };
}
