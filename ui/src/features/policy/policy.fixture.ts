// A policy and decisions for the tests of this folder.

import type { AmendmentView, EgressRule, Layer, Policy } from '@/ipc/bindings';

/** A rule of some layer. */
export function sampleRule(layer: Layer, changes: Partial<EgressRule> = {}): EgressRule {
  return {
    origin: { id: `${layer}:1`, layer, source: `${layer} source` },
    protocol: 'tcp',
    host: { name: 'registry.example' },
    port: 443,
    use: 'always',
    ...changes,
  } as EgressRule;
}

/** A policy with a rule in some layers. */
export function samplePolicy(): Policy {
  const origin = { id: 'amendment:r7k2mqdx-a2', layer: 'amendment', source: 'denied by you' } as const;
  return {
    revision: 4,
    egress: [sampleRule('order'), sampleRule('amendment')],
    denials: [
      {
        origin: { ...origin, amendment: 'r7k2mqdx-a2' },
        subject: { type: 'egress', protocol: 'tcp', host: { address: '2001:db8::1' }, port: 22, resolved: null },
        reason: 'no ssh',
      },
    ],
    paths: [{ origin: { id: 'project:1', layer: 'project', source: 'policy.toml line 4' }, path: '~/.cargo', access: 'read' }],
  };
}

/** A recorded decision as the list shows it. */
export function sampleDecision(changes: Partial<AmendmentView> = {}): AmendmentView {
  return {
    id: 'r7k2mqdx-a1',
    block: 'r7k2mqdx-b1',
    scope: 'run',
    words: 'Let this run connect to registry.example:443 until it ends',
    state: 'active',
    decided_at: '2026-01-02T10:00:00Z',
    revision: 2,
    decision: 'allow',
    run_title: 'Update the dependencies',
    repo: '/home/op/project',
    hits: 12,
    last_hit_at: '2026-01-02T10:05:00Z',
    project_written: false,
    ...changes,
  } as AmendmentView;
}
