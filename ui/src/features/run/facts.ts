import type { RunView } from '@/ipc/bindings';
import { count, figure } from '@/lib/count';
import { oneLine } from '@/lib/text';
import { duration, millisOf } from '@/lib/time';
import { spentWords } from './spent';

/** A fact of the header: what it is, and what it says. */
export interface Fact {
  label: string;
  text: string;
  title?: string;
  isMachine?: boolean;
}

/** How long a run ran, or has been running. */
export function elapsed(run: Pick<RunView, 'created_at' | 'ended_at'>, now: number): string {
  const from = millisOf(run.created_at);
  const to = millisOf(run.ended_at) ?? now;
  return from === null ? 'unknown' : duration(Math.max(0, to - from));
}

export function factsOf(run: RunView, now: number): Fact[] {
  // Counted by the engine while the run waits for its review; before that, as far as its remote was asked.
  const behind = run.behind ?? run.freshness?.behind ?? null;
  const base = `${run.base_commit.slice(0, 10)} of ${run.base_branch}`;
  return [
    { label: 'Repository', text: oneLine(run.repo_name ?? run.repo, 80), title: oneLine(run.repo, 400) },
    { label: 'Branch', text: oneLine(run.branch, 120), isMachine: true },
    { label: 'Base', text: oneLine(base, 120), isMachine: true, ...stale(run) },
    {
      label: 'Behind',
      text: behind === null ? 'not known' : behind === 0 ? 'up to date' : count(behind, 'commit'),
    },
    { label: run.ended_at === null ? 'Running for' : 'Took', text: elapsed(run, now) },
    ...spentFacts(run),
    { label: 'Isolation', text: oneLine(run.tier, 120) },
    { label: 'Policy', text: run.revision === undefined ? 'not known' : `revision ${figure(run.revision)}` },
  ];
}

/** What its agent says that it has used; nothing for a run of which that is not measured at all. */
function spentFacts(run: RunView): Fact[] {
  const words = spentWords(run.spent ?? null);
  return words === null ? [] : [{ label: 'Used', text: words, title: `${words}, as its agent tells it` }];
}

function stale(run: RunView): { title?: string } {
  const why = run.freshness?.stale ?? null;
  return why === null ? {} : { title: oneLine(why, 400) };
}
