// A policy in words, by the layers it is made of. The same words as `foreman policy show`.

import type {
  AmendmentId,
  BoundRule,
  Bounds,
  Denial,
  EgressRule,
  Explanation,
  HostPattern,
  Layer,
  Origin,
  PathRule,
  Policy,
  QuestionRule,
} from '@/ipc/bindings';
import { bytes } from '@/lib/bytes';
import { figure } from '@/lib/count';
import { oneLine, visibleText } from '@/lib/text';
import { duration, exact } from '@/lib/time';
import { boundName, figureWords } from '@/features/blocks/bounds';
import { subjectWords } from '@/features/blocks/words';

/** The layers, widest first: later ones are narrower and win. */
export const LAYERS: readonly Layer[] = ['floor', 'profile', 'project', 'order', 'amendment'];

/** What a rule does. */
export type RuleKind = 'allow' | 'deny' | 'read' | 'write' | 'raise' | 'answer';

/** One rule as it is shown. */
export interface RuleRow {
  readonly key: string;
  readonly kind: RuleKind;
  readonly words: string;
  readonly source: string;
  readonly amendment: AmendmentId | null;
}

/** One layer with its rules. */
export interface LayerRows {
  readonly layer: Layer;
  readonly rows: readonly RuleRow[];
}

/** The rules of a policy, layer by layer. Layers without rules are there, too: that a layer is empty counts. */
export function byLayer(policy: Policy): LayerRows[] {
  const all = [
    ...policy.egress.map((rule) => ({ layer: rule.origin.layer, row: egressRow(rule) })),
    ...policy.denials.map((denial) => ({ layer: denial.origin.layer, row: denialRow(denial) })),
    ...policy.paths.map((path) => ({ layer: path.origin.layer, row: pathRow(path) })),
    ...(policy.bounds ?? []).map((rule) => ({ layer: rule.origin.layer, row: boundRow(rule) })),
    ...(policy.questions ?? []).map((rule) => ({ layer: rule.origin.layer, row: answerRow(rule) })),
  ];
  return LAYERS.map((layer) => ({
    layer,
    rows: all
      .filter((one) => one.layer === layer)
      .map(({ row }, at) => ({ ...row, key: `${layer}:${String(at)}:${row.key}` })),
  }));
}

function row(origin: Origin, kind: RuleKind, words: string): RuleRow {
  return { key: origin.id, kind, words, source: sourceWords(origin), amendment: origin.amendment ?? null };
}

function egressRow(rule: EgressRule): RuleRow {
  return row(rule.origin, 'allow', ruleWords(rule));
}

function denialRow(denial: Denial): RuleRow {
  const reason = denial.reason === '' ? '' : `: ${visibleText(denial.reason)}`;
  return row(denial.origin, 'deny', `${subjectWords(denial.subject)}${reason}`);
}

function pathRow(path: PathRule): RuleRow {
  let text = visibleText(path.path);
  if (path.applies?.use === 'holds') text += ' once';
  if (path.expires) text += ` until ${exact(path.expires)}`;
  return row(path.origin, path.access, text);
}

function boundRow(rule: BoundRule): RuleRow {
  return row(rule.origin, 'raise', `${boundName(rule.bound)} to ${figureWords(rule.bound, rule.limit)}`);
}

function answerRow(rule: QuestionRule): RuleRow {
  const asked = rule.arguments ? oneLine(rule.arguments, 160) : 'whatever it asks';
  const once = rule.applies?.use === 'holds' ? ' once' : '';
  return row(rule.origin, 'answer', `yes to ${visibleText(rule.agent)} about ${visibleText(rule.tool)}: ${asked}${once}`);
}

/** `tcp *.example.com:443 at 10.0.0.0/8 once until 1 Feb 2026`. */
export function ruleWords(rule: EgressRule): string {
  let text = `${rule.protocol} ${patternWords(rule.host)}:${String(rule.port)}`;
  if (rule.resolves_to) text += ` at ${visibleText(rule.resolves_to)}`;
  if (rule.use === 'holds') text += ' once';
  if (rule.expires) text += ` until ${exact(rule.expires)}`;
  return text;
}

function patternWords(host: HostPattern): string {
  if (host.name !== undefined) return visibleText(host.name);
  if (host.one_label_under !== undefined) return `*.${visibleText(host.one_label_under)}`;
  if (host.any_depth_under !== undefined) return `**.${visibleText(host.any_depth_under)}`;
  const address = visibleText(host.address);
  return address.includes(':') ? `[${address}]` : address;
}

/** Where a rule was written, and why if its author said so. */
export function sourceWords(origin: Origin): string {
  const reason = origin.reason ? `: ${visibleText(origin.reason)}` : '';
  return `${visibleText(origin.source)}${reason}`;
}

/** A layer's name. */
export function layerWords(layer: Layer): string {
  switch (layer) {
    case 'floor':
      return 'Floor';
    case 'profile':
      return 'Profile';
    case 'project':
      return 'Project';
    case 'order':
      return 'Work order';
    case 'amendment':
      return 'Amendments';
    default:
      return layer satisfies never;
  }
}

/** What a layer is. */
export function layerMeaning(layer: Layer): string {
  switch (layer) {
    case 'floor':
      return 'Built in. No rule opens it: addresses of this machine and of cloud metadata services, port 53, UDP on 443 and 853, stores of credentials, sockets that give the machine away, the engine’s own data.';
    case 'profile':
      return 'Presets of a harness or a toolchain.';
    case 'project':
      return 'The repository’s own policy file, when you trusted it, and decisions for the whole project.';
    case 'order':
      return 'What the work order brought along, and decisions for every run of it.';
    case 'amendment':
      return 'Decisions for this run only.';
    default:
      return layer satisfies never;
  }
}

/** The bounds in force, one a line. */
export function boundsWords(bounds: Bounds): string[] {
  const lines: string[] = [];
  const { wall_seconds, memory_bytes, processes, output_bytes, hold_seconds } = bounds;
  const { cpu_millicores, disk_bytes, open_files } = bounds;
  if (wall_seconds !== null) lines.push(`Wall time ${duration(wall_seconds * 1000)}`);
  if (memory_bytes !== null) lines.push(`Memory ${bytes(memory_bytes)}`);
  if (processes !== null) lines.push(`${figure(processes)} processes`);
  if (output_bytes !== null) lines.push(`Output ${bytes(output_bytes)}`);
  if (cpu_millicores) lines.push(figureWords('cpu', cpu_millicores));
  if (disk_bytes) lines.push(`Disk ${bytes(disk_bytes)}`);
  if (open_files) lines.push(`${figure(open_files)} open files of each process`);
  if (bounds.tokens) lines.push(figureWords('tokens', bounds.tokens));
  if (bounds.cost_microusd) lines.push(`Cost ${figureWords('cost', bounds.cost_microusd)}`);
  if (bounds.turns) lines.push(figureWords('turns', bounds.turns));
  if (hold_seconds) lines.push(`${duration(hold_seconds * 1000)} for an answer to what is held`);
  return lines.length > 0 ? lines : ['Those of the engine'];
}

/** How the repository's policy file stands. */
export function fileWords(standing: string): string {
  switch (standing) {
    case 'absent':
      return 'The repository has none.';
    case 'trusted':
      return 'Trusted as it is.';
    case 'untrusted':
      return 'Not trusted, so it has no effect.';
    case 'changed':
      return 'Changed since it was trusted, so it has no effect.';
    default:
      return visibleText(standing);
  }
}

/** Why a destination would be let through, held or refused: sentences, the answer first. */
export function whyWords(explanation: Explanation): string[] {
  const lines = [`${visibleText(explanation.verdict)}: ${visibleText(explanation.words)}.`];
  if (explanation.layer && explanation.rule) {
    lines.push(`Decided by ${visibleText(explanation.rule)} from ${decidedBy(explanation.layer)}.`);
  }
  return lines.map((line) => line.charAt(0).toUpperCase() + line.slice(1).replace(/\.\.$/, '.'));
}

function decidedBy(layer: Layer): string {
  switch (layer) {
    case 'floor':
      return 'the floor, which no rule opens';
    case 'profile':
      return 'a preset';
    case 'project':
      return 'the repository';
    case 'order':
      return 'the work order';
    case 'amendment':
      return 'a decision on this run';
    default:
      return layer satisfies never;
  }
}
