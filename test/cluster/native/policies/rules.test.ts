import type { V1NetworkPolicySpec } from '@kubernetes/client-node';
import { describe, expect, it } from 'vitest';
import { transaction } from './rules.ts';
import { type Cluster, type Pod, type Policy, rangesOf, selects, without } from './selection.ts';

type Given = { namespace?: string; labels?: Record<string, string>; phase?: string; hostNetwork?: boolean };

/** Creates a Pod whose name ends with the last part of its address: `web-7` is 10.0.0.7. */
function pod(name: string, { namespace = 'a', labels, phase, hostNetwork }: Given = {}): Pod {
  return {
    metadata: { name, namespace, uid: name, ...(labels ? { labels } : {}) },
    spec: { containers: [], ...(hostNetwork ? { hostNetwork } : {}) },
    status: { phase: phase ?? 'Running', podIP: `10.0.0.${name.split('-')[1]}` },
  };
}
const policy = (spec: V1NetworkPolicySpec, namespace = 'a'): Policy => ({
  metadata: { name: 'p', namespace },
  spec,
});
const namespaces = ['a', 'b'].map((name) => ({ metadata: { name, labels: { team: name } } }));
const clusterOf = (pods: Pod[], policies: Policy[] = []): Cluster => ({ pods, policies, namespaces });

/** Returns the rules of the only chain of a direction, without the final rule that all chains have. */
function allowed(cluster: Cluster, direction: 'E' | 'I'): string[] | undefined {
  const { text, chains } = transaction(cluster, undefined);
  const chain = chains.find((name) => name.startsWith(`SEMB-${direction}-`));
  if (!chain) return undefined;
  const lines = text.split('\n').filter((line) => line.startsWith(`-A ${chain} `));
  expect(lines.at(-1)).toBe(`-A ${chain} -j REJECT --reject-with icmp-admin-prohibited`);
  return lines.slice(0, -1).map((line) => line.slice(`-A ${chain} `.length).replace(/ ?-j RETURN$/, ''));
}

const WEB = { matchLabels: { app: 'web' } };
const web = pod('web-1', { labels: { app: 'web' } });
const database = pod('db-2', { labels: { app: 'db' } });
const stranger = pod('x-3', { namespace: 'b', labels: { app: 'db' } });

describe('who is held back', () => {
  const chainsOf = (spec: V1NetworkPolicySpec, namespace?: string) =>
    transaction(clusterOf([web, database, stranger], [policy(spec, namespace)]), undefined)
      .text.split('\n')
      .flatMap((line) => /^-A SEMB-POLICY (-[sd] \S+) -j SEMB-[EI]-/.exec(line)?.[1] ?? []);

  it.each([
    ['one that no policy selects is free', { podSelector: { matchLabels: { app: 'none' } } }, 'a', []],
    ['without types: what comes in', { podSelector: WEB }, 'a', ['-d 10.0.0.1/32']],
    [
      'without types but with rules of egress: both',
      { podSelector: WEB, egress: [{}] },
      'a',
      ['-s 10.0.0.1/32', '-d 10.0.0.1/32'],
    ],
    ['one direction', { podSelector: WEB, policyTypes: ['Egress'] }, 'a', ['-s 10.0.0.1/32']],
    ['an empty selector is all of the namespace', { podSelector: {} }, 'b', ['-d 10.0.0.3/32']],
  ] as const)('%s', (_, spec, namespace, expected) => {
    expect(chainsOf(spec as unknown as V1NetworkPolicySpec, namespace)).toEqual(expected);
  });

  it('is nobody who talks to himself', () => {
    const { text } = transaction(clusterOf([web], [policy({ podSelector: WEB })]), undefined);
    const lines = text.split('\n');
    const self = lines.indexOf('-A SEMB-POLICY -s 10.0.0.1/32 -d 10.0.0.1/32 -j RETURN');
    expect(self).toBeGreaterThan(0);
    expect(lines.findIndex((line) => line.includes('-j SEMB-I-'))).toBeGreaterThan(self);
  });

  it('is no Pod that has ended or has the address of its node', () => {
    const pods = [
      pod('done-1', { phase: 'Succeeded' }),
      pod('dead-2', { phase: 'Failed' }),
      pod('node-3', { hostNetwork: true }),
    ];
    expect(transaction(clusterOf(pods, [policy({ podSelector: {} })]), undefined).chains).toEqual([]);
  });
});

describe('what is let through', () => {
  const to = (rules: V1NetworkPolicySpec['egress']) =>
    allowed(
      clusterOf(
        [web, database, stranger],
        [policy({ podSelector: WEB, policyTypes: ['Egress'], egress: rules ?? [] })],
      ),
      'E',
    );
  const DB = { podSelector: { matchLabels: { app: 'db' } } };

  it.each([
    ['nothing without a rule', [], []],
    ['everything by an empty rule', [{}], ['']],
    ['ports of everybody', [{ ports: [{ port: 53, protocol: 'UDP' }] }], ['-p udp --dport 53']],
    ['a range of ports', [{ ports: [{ port: 1000, endPort: 2000 }] }], ['-p tcp --dport 1000:2000']],
    ['every port of a protocol', [{ ports: [{ protocol: 'UDP' }] }], ['-p udp']],
    ['Pods of the namespace alone', [{ to: [DB] }], ['-d 10.0.0.2/32']],
    [
      'Pods of every namespace',
      [{ to: [{ ...DB, namespaceSelector: {} }] }],
      ['-d 10.0.0.2/32', '-d 10.0.0.3/32'],
    ],
    [
      'all Pods of namespaces by their labels',
      [{ to: [{ namespaceSelector: { matchLabels: { team: 'b' } } }] }],
      ['-d 10.0.0.3/32'],
    ],
    [
      'each peer on each port',
      [{ to: [DB, { ipBlock: { cidr: '192.0.2.0/24' } }], ports: [{ port: 1 }, { port: 2 }] }],
      [
        '-d 10.0.0.2/32 -p tcp --dport 1',
        '-d 10.0.0.2/32 -p tcp --dport 2',
        '-d 192.0.2.0/24 -p tcp --dport 1',
        '-d 192.0.2.0/24 -p tcp --dport 2',
      ],
    ],
    ['a peer that nobody is', [{ to: [{ podSelector: { matchLabels: { app: 'none' } } }] }], []],
    ['no IPv6', [{ to: [{ ipBlock: { cidr: 'fd00::/8' } }] }], []],
  ])('%s', (_, rules, expected) => {
    expect(to(rules)).toEqual(expected);
  });

  it('into a Pod, by where it comes from', () => {
    // This is the name on the wire; the client library's type has another.
    const ingress = [{ from: [DB], ports: [{ port: 80 }] }] as unknown as NonNullable<
      V1NetworkPolicySpec['ingress']
    >;
    const spec = { podSelector: WEB, ingress };
    expect(allowed(clusterOf([web, database], [policy(spec)]), 'I')).toEqual([
      '-s 10.0.0.2/32 -p tcp --dport 80',
    ]);
  });

  it('is what any of the policies allows', () => {
    const policies = [80, 81].map((port) =>
      policy({ podSelector: WEB, policyTypes: ['Egress'], egress: [{ ports: [{ port }] }] }),
    );
    expect(allowed(clusterOf([web], policies), 'E')).toEqual(['-p tcp --dport 80', '-p tcp --dport 81']);
  });

  it('is never guessed: a port by name is refused', () => {
    expect(() => to([{ ports: [{ port: 'http' }] }])).toThrow('has a name');
  });
});

it('chains of Pods that went are removed, and the jump is moved in front of what others put there', () => {
  const before = transaction(clusterOf([web], [policy({ podSelector: {} })]), undefined);
  const { text, chains } = transaction(clusterOf([database], [policy({ podSelector: {} })]), before.chains);
  const lines = text.split('\n');
  expect(before.text).not.toContain('-D FORWARD');
  expect(lines).toContain(`-X ${before.chains[0]}`);
  expect(lines).toContain(`:${chains[0]} - [0:0]`);
  for (const hook of ['FORWARD', 'INPUT'])
    expect(lines.indexOf(`-D ${hook} -j SEMB-POLICY`)).toBe(lines.indexOf(`-I ${hook} 1 -j SEMB-POLICY`) - 1);
});

it.each([
  ['192.0.2.0/24', '198.51.100.0/24', ['192.0.2.0/24']],
  ['192.0.2.0/24', '192.0.2.0/24', []],
  ['192.0.2.0/25', '192.0.2.0/24', []],
  ['192.0.2.0/24', '192.0.2.0/25', ['192.0.2.128/25']],
  ['10.0.0.0/30', '10.0.0.2/32', ['10.0.0.0/31', '10.0.0.3/32']],
])('%s without %s', (range, except, expected) => {
  expect(without(range, except)).toEqual(expected);
});

it('a block less its exceptions is every address but theirs', () => {
  const block = { ipBlock: { cidr: '0.0.0.0/0', except: ['169.254.0.0/16', '10.0.0.0/8'] } };
  const ranges = rangesOf(block, 'a', clusterOf([]));
  const addresses = ranges.reduce((sum, range) => sum + 2 ** (32 - Number(range.split('/')[1])), 0);
  expect(addresses).toBe(2 ** 32 - 2 ** 16 - 2 ** 24);
  for (const taken of ['169.254.169.254/32', '10.1.2.3/32'])
    expect(ranges.flatMap((range) => without(range, taken))).toEqual(ranges);
});

it.each([
  ['In', ['web'], true, false],
  ['NotIn', ['web'], false, true],
  ['Exists', undefined, true, false],
  ['DoesNotExist', undefined, false, true],
])('a selector with %s', (operator, values, ofWeb, ofNothing) => {
  const selector = { matchExpressions: [{ key: 'app', operator, ...(values ? { values } : {}) }] };
  expect(selects(selector, { app: 'web' })).toBe(ofWeb);
  expect(selects(selector, {})).toBe(ofNothing);
});
