import { find, type Manifest, ofKind, podsOf, render } from '@semblance/testkit/chart/chart';
import { beforeAll, describe, expect, it } from 'vitest';

let nothing: Manifest[];
let external: Manifest[];

beforeAll(async () => {
  [nothing, external] = await Promise.all([render(), render('external')]);
});

/** Returns the grants of a Role as strings `group/resource: verbs of names`. */
function grants(role: Manifest): string[] {
  return (
    role.rules as { apiGroups: string[]; resources: string[]; resourceNames?: string[]; verbs: string[] }[]
  )
    .flatMap(({ apiGroups, resources, resourceNames, verbs }) =>
      resources.map((resource) => {
        const of = resourceNames ? ` of ${resourceNames.join(' ')}` : '';
        return `${apiGroups[0] || 'core'}/${resource}: ${verbs.join(' ')}${of}`;
      }),
    )
    .sort();
}

describe('rights', () => {
  it.each([
    [
      'agent',
      [
        'coordination.k8s.io/leases: get create update',
        'core/namespaces: get of apps',
        'core/pods: get',
        'semblance.dev/gpuagents/status: get patch',
        'semblance.dev/gpuagents: get list watch create patch',
      ],
    ],
    [
      'control-plane',
      [
        'coordination.k8s.io/leases: get list watch',
        'core/pods: get',
        'semblance.dev/agentpools: get list watch',
        'semblance.dev/gpuagents: get list watch',
        'semblance.dev/livesessions/status: get list watch',
        'semblance.dev/livesessions: get list watch create update patch delete',
        'semblance.dev/renderjobs/status: get list watch',
        'semblance.dev/renderjobs: get list watch create update patch delete',
        'semblance.dev/renderjobs: prioritise useuploads',
      ],
    ],
    [
      'operator',
      [
        'coordination.k8s.io/leases: get list watch create delete',
        'coordination.k8s.io/leases: update of semblance-operator',
        'core/namespaces: get of apps',
        'core/pods: get list watch create delete patch',
        'events.k8s.io/events: create patch',
        ...['agentpools', 'gpuagents', 'livesessions', 'renderjobs'].flatMap((name) => [
          `semblance.dev/${name}/finalizers: update`,
          `semblance.dev/${name}/status: get update patch`,
          `semblance.dev/${name}: get list watch create update patch delete`,
        ]),
      ],
    ],
    [
      'certificates',
      [
        `core/secrets: get patch of ${['gateway', 'control-plane', 'operator', 'agent'].map((name) => `rel-semblance-${name}-certificate`).join(' ')}`,
      ],
    ],
    [
      'hooks',
      [
        'apps/deployments: get patch of rel-semblance-gateway rel-semblance-control-plane rel-semblance-operator',
        'coordination.k8s.io/leases: get list delete',
        'core/pods: get list delete',
        'semblance.dev/agentpools: create',
        ...['agentpools', 'gpuagents', 'livesessions', 'renderjobs'].map(
          (name) => `semblance.dev/${name}: get list patch delete`,
        ),
      ],
    ],
  ])('of %s are what it does', (component, expected) => {
    expect(grants(find(nothing, 'Role', `rel-semblance-${component}`))).toEqual([...expected].sort());
    const binding = find(nothing, 'RoleBinding', `rel-semblance-${component}`);
    expect(binding.roleRef.name).toBe(`rel-semblance-${component}`);
    expect(binding.subjects).toEqual([
      { kind: 'ServiceAccount', name: `rel-semblance-${component}`, namespace: 'apps' },
    ]);
  });

  it('beyond the namespace are Nodes and PriorityClasses alone, for the operator, if it may', async () => {
    // Others are for people (people.test.ts).
    const bound = ofKind(nothing, 'ClusterRoleBinding').map(({ roleRef }) => roleRef.name);
    expect(bound).toEqual(['apps-rel-semblance-operator']);
    const role = find(nothing, 'ClusterRole', 'apps-rel-semblance-operator');
    expect(grants(role)).toEqual([
      'core/nodes: get list watch',
      'scheduling.k8s.io/priorityclasses: get list watch',
    ]);
    expect(ofKind(nothing, 'ClusterRoleBinding')[0]?.subjects[0].name).toBe('rel-semblance-operator');
    expect(ofKind(await render('plain'), 'ClusterRole')).toEqual([]);
  });

  it('of agents hold no key that two of them share', async () => {
    for (const [file, secretName] of [
      [undefined, 'rel-semblance-agent-certificate'],
      ['gpu', 'rel-semblance-agent-tls'],
    ] as const) {
      const pools = podsOf(await render(file)).filter(({ from }) => from.startsWith('AgentPool'));
      expect(pools.length).toBeGreaterThan(0);
      for (const { from, template } of pools) {
        const secrets = template.spec.volumes.flatMap((each: { secret?: object }) => each.secret ?? []);
        expect(secrets, from).toEqual([
          expect.objectContaining({
            secretName,
            items: [{ key: 'ca.crt', path: 'ca.crt' }],
          }),
        ]);
      }
    }
  });

  it('of the gateway and the evaluation are none', () => {
    expect(ofKind(nothing, 'Role').map(({ metadata }) => metadata.name)).not.toContain(
      'rel-semblance-gateway',
    );
    for (const account of ofKind(nothing, 'ServiceAccount'))
      expect(account.automountServiceAccountToken).toBe(false);
  });
});

type Rule = {
  from?: unknown[];
  to?: Record<string, unknown>[];
  ports?: { port: number; protocol: string }[];
};
const component = (peer: unknown) =>
  (peer as { podSelector?: { matchLabels?: Record<string, string> } }).podSelector?.matchLabels?.[
    'app.kubernetes.io/component'
  ];
const policy = (manifests: Manifest[], name: string) =>
  find(manifests, 'NetworkPolicy', `rel-semblance-${name}`).spec;
/**
 * Returns the peers of rules as sorted strings `who:ports`. `who` is a component of this chart, else the peer as
 * JSON, or `*` for any peer.
 */
function peers(rules: Rule[], side: 'from' | 'to'): string[] {
  return rules
    .flatMap((rule) => {
      const ports = (rule.ports ?? []).map(({ port }) => port).join(',');
      const found = rule[side]?.map((peer) => component(peer) ?? JSON.stringify(peer)) ?? ['*'];
      return found.map((who) => `${who}:${ports}`);
    })
    .sort();
}

/** The Pods that answer names in most clusters, by UDP and TCP. */
const DNS = `${JSON.stringify({
  namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'kube-system' } },
  podSelector: { matchLabels: { 'k8s-app': 'kube-dns' } },
})}:53,53`;

describe('network', () => {
  it('lets nothing in that is not let in below', () => {
    const deny = policy(nothing, 'default-deny');
    expect(deny.policyTypes).toEqual(['Ingress']);
    expect(deny.ingress).toBeUndefined();
    for (const { from, template } of podsOf(nothing))
      expect(template.metadata.labels, from).toMatchObject(deny.podSelector.matchLabels);
  });

  it('has a policy with both directions for every component', () => {
    const components = new Set(
      podsOf(nothing).map(({ template }) => template.metadata.labels?.['app.kubernetes.io/component']),
    );
    const selected = ofKind(nothing, 'NetworkPolicy')
      .map(({ spec }) => component(spec))
      .filter(Boolean);
    expect([...selected].sort()).toEqual([...components].sort());
    for (const each of ofKind(nothing, 'NetworkPolicy').filter(({ spec }) => component(spec)))
      expect(each.spec.policyTypes).toEqual(['Ingress', 'Egress']);
  });

  it('lets agents reach DNS, the gateway and the Kubernetes API, and be reached by those who call them', () => {
    const agent = policy(nothing, 'agent');
    expect(peers(agent.egress, 'to')).toEqual(['*:443,6443', 'gateway:8080', DNS]);
    expect(peers(agent.ingress, 'from')).toEqual(['control-plane:9092', 'gateway:9092', 'operator:9092']);
    const withS3 = policy(external, 'agent');
    expect(peers(withS3.egress, 'to')).toEqual([
      'gateway:8080',
      '{"ipBlock":{"cidr":"10.0.0.1/32"}}:443',
      '{"ipBlock":{"cidr":"10.1.0.0/16"}}:443,4222,4318,5432,9000',
      DNS,
    ]);
  });

  it('lets the control plane alone reach PostgreSQL, NATS and what webhooks name', () => {
    for (const [name, port] of [
      ['postgres', 5432],
      ['nats', 4222],
    ] as const) {
      expect(peers(policy(nothing, name).ingress, 'from')).toEqual([`control-plane:${port}`]);
      expect(policy(nothing, name).egress).toEqual([]);
    }
    const [outside] = policy(nothing, 'control-plane').egress as Rule[];
    expect(outside?.to?.[0]).toEqual({ ipBlock: { cidr: '0.0.0.0/0', except: ['169.254.0.0/16'] } });
    expect(peers(policy(nothing, 'control-plane').ingress, 'from')).toEqual([
      'gateway:9090',
      'operator:9090',
      'test:9090',
    ]);
    expect(peers(policy(nothing, 'operator').ingress, 'from')).toEqual(['control-plane:9091']);
  });

  it('lets names be asked of the DNS of the cluster alone, unless the owner says of whom', async () => {
    const asks = (manifests: Manifest[]) =>
      ofKind(manifests, 'NetworkPolicy').flatMap(({ metadata, spec }) =>
        peers(
          ((spec.egress ?? []) as Rule[]).filter(({ ports }) =>
            ports?.some(({ port, protocol }) => protocol === 'UDP' || port === 53),
          ),
          'to',
        ).map((peer) => [metadata.name.replace('rel-semblance-', ''), peer]),
      );
    const components = ['agent', 'certificates', 'control-plane', 'gateway', 'hooks', 'operator', 'test'];
    expect(asks(nothing).sort()).toEqual(components.map((name) => [name, DNS]));
    const peer = { ipBlock: { cidr: '169.254.20.10/32' } };
    const own = await render(undefined, {
      'networkPolicy.dns.to': [peer],
      'networkPolicy.dns.ports': [53, 5353],
    });
    for (const [name, who] of asks(own)) expect(who, name).toBe(`${JSON.stringify(peer)}:53,53,5353,5353`);
    const any = await render(undefined, { 'networkPolicy.dns.to': [] });
    for (const [name, who] of asks(any)) expect(who, name).toBe('*:53,53');
  });

  it('lets nobody read metrics unless the owner says who', async () => {
    const readers = (manifests: Manifest[]) =>
      ofKind(manifests, 'NetworkPolicy').flatMap(({ spec }) =>
        peers((spec.ingress ?? []) as Rule[], 'from').filter((peer) => peer.endsWith(':8081')),
      );
    expect(readers(nothing)).toEqual([]);
    const from = [{ namespaceSelector: { matchLabels: { team: 'watch' } } }];
    const four = Array.from({ length: 4 }, () => `${JSON.stringify(from[0])}:8081`);
    expect(readers(await render(undefined, { 'networkPolicy.metricsFrom': from }))).toEqual(four);
  });
});
