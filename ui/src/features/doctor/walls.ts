import type { WallReport } from '@/ipc/bindings';
import type { Tone } from '@/lib/state';
import { oneLine } from '@/lib/text';

const NAMES: Readonly<Record<WallReport['wall'], { name: string; does: string }>> = {
  user_namespace: { name: 'User namespaces', does: 'a run has no rights outside of its cage' },
  mounts: { name: 'Private files', does: 'a run sees its worktree and what policy opens, and nothing else' },
  network: { name: 'Network held', does: 'every connection is captured and waits for a decision' },
  dns: { name: 'Names answered by the cage', does: 'no name is looked up before it is allowed' },
  seccomp: { name: 'System call filter', does: 'calls that could break out are refused' },
  git: { name: "Git's own directory", does: 'the repository is not written by a run' },
  landlock: { name: 'Second file wall', does: 'file access is refused even where the first wall has a hole' },
  cgroup: { name: 'Control groups', does: 'memory and processes are bounded and counted' },
};

/** Name and purpose of a wall; one that this window does not know by its tag. */
export function wallName(wall: string): { name: string; does: string } {
  return Object.hasOwn(NAMES, wall) ? NAMES[wall as WallReport['wall']] : { name: oneLine(wall, 60), does: '' };
}

/** How a wall stands: whether it holds, and whether runs go without it. */
export function wallStands(wall: WallReport): { word: string; tone: Tone } {
  if (wall.holds) return { word: 'Holds', tone: 'good' };
  return wall.required ? { word: 'Does not hold', tone: 'bad' } : { word: 'Missing', tone: 'warn' };
}

/** The mark of an isolation tier. Its words come from the engine. */
export function tierTone(tier: string): Tone {
  return tier === 'full' ? 'good' : tier === 'reduced' || tier === 'no_namespaces' ? 'warn' : 'bad';
}
