// What the first steps found, in words.

import type { Agents, AgentView, DoctorReport, RepoView, WallReport } from '@/ipc/bindings';
import { bytes } from '@/lib/bytes';
import { count, figure } from '@/lib/count';
import type { Tone } from '@/lib/state';

export type StepStanding = 'open' | 'done' | 'skipped';

/** Walls by what the operator should look at first: required and missing, missing, holding. */
export function byUrgency(walls: readonly WallReport[]): WallReport[] {
  const place = (wall: WallReport): number => (wall.holds ? 2 : wall.required ? 0 : 1);
  return [...walls].sort((a, b) => place(a) - place(b));
}

export function wallTone(wall: WallReport): Tone {
  return wall.holds ? 'good' : wall.required ? 'bad' : 'warn';
}

/** Whether runs can start here, as a sentence. */
export function doctorWords(report: DoctorReport): { tone: Tone; text: string } {
  const missing = report.walls.filter((wall) => !wall.holds);
  const required = missing.filter((wall) => wall.required);
  if (required.length > 0) return { tone: 'bad', text: `${count(required.length, 'wall')} that every run needs ${required.length === 1 ? 'does' : 'do'} not hold here. No run starts until that is put right.` };
  if (missing.length > 0) return { tone: 'warn', text: `Runs start here, but ${count(missing.length, 'wall')} ${missing.length === 1 ? 'is' : 'are'} missing.` };
  return { tone: 'good', text: 'Every wall holds here, each seen by a probe that was refused.' };
}

export function isDoctorDone(report: DoctorReport | null): boolean {
  return report !== null && report.walls.every((wall) => wall.holds || !wall.required);
}

export function foundAgents(agents: Agents | null): AgentView[] {
  return agents?.agents.filter((agent) => agent.path !== null) ?? [];
}

export interface RepoFact {
  readonly label: string;
  readonly words: string;
  readonly tone: Tone;
}

function named(list: readonly string[]): string {
  return list.length > 5 ? `${list.slice(0, 5).join(', ')} and ${figure(list.length - 5)} more` : list.join(', ');
}

/** What a repository is like, and what that means for runs. */
export function repoFacts(repo: RepoView): RepoFact[] {
  const facts: RepoFact[] = [
    { label: 'Branch', words: repo.branch ?? 'None is checked out: name one in each order.', tone: repo.branch === null ? 'warn' : 'good' },
    { label: 'Size', words: `${repo.size_bytes === null ? 'Not counted, that takes too long' : bytes(repo.size_bytes)}${repo.commits === null ? '' : `, ${count(repo.commits, 'commit')}`}.`, tone: 'good' },
  ];
  if (repo.submodules.length > 0) facts.push({ label: 'Submodules', words: `${named(repo.submodules)}. Filled from your checkout, without network; nothing in them can be committed by a run.`, tone: 'warn' });
  if (repo.lfs) facts.push({ label: 'Large files', words: 'Its attributes name the large-file filter. Runs see the pointers, because no filter runs.', tone: 'warn' });
  if (repo.sparse) facts.push({ label: 'Sparse checkout', words: 'Only a part of it is checked out here.', tone: 'warn' });
  if (repo.hooks.length > 0) facts.push({ label: 'Hooks', words: `${named(repo.hooks)}. No run starts them.`, tone: 'good' });
  if (repo.dirty_files !== null && repo.dirty_files > 0) facts.push({ label: 'Uncommitted', words: `${count(repo.dirty_files, 'file')}. Runs start from commits, so they do not see these.`, tone: 'warn' });
  facts.push({ label: 'Remote', words: repo.remote ?? 'None.', tone: 'good' });
  return facts;
}

/** What trusting a repository's own files means now; absent when there is nothing to trust. */
export function trustWords(standing: string): { tone: Tone; text: string; can: boolean } | null {
  switch (standing) {
    case 'absent': return null;
    case 'trusted': return { tone: 'good', text: 'Trusted, exactly as it is now.', can: false };
    case 'changed': return { tone: 'warn', text: 'Changed since it was trusted, so it does not count.', can: true };
    default: return { tone: 'warn', text: 'Not trusted, so it does not count.', can: true };
  }
}
