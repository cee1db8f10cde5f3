import { createHash } from 'node:crypto';
import type { V1NetworkPolicyPeer, V1NetworkPolicyPort } from '@kubernetes/client-node';
import { addressed, type Cluster, type Pod, type Policy, rangesOf, selects } from './selection.ts';

const CHAIN = 'SEMB-POLICY';
/**
 * FORWARD has packets between Pods, and between Pods and elsewhere. INPUT has packets from Pods to this node, such
 * as to kube-apiserver.
 */
const HOOKS = ['FORWARD', 'INPUT'] as const;

type Direction = 'Ingress' | 'Egress';
type Rule = { peers: V1NetworkPolicyPeer[] | undefined; ports: V1NetworkPolicyPort[] | undefined };

/**
 * Returns the input of iptables-restore (with --noflush) that enforces NetworkPolicies in one transaction. If a
 * policy selects a Pod for a direction, the Pod sends or receives, in that direction, only connections that one of
 * its policies allows. Two kinds of packets always pass: from a Pod to itself (by a Service's address), and from
 * the node to its Pods, above all probes.
 *
 * @param former chains of the previous transaction; undefined for the first one
 */
export function transaction(
  cluster: Cluster,
  former: readonly string[] | undefined,
): { text: string; chains: string[] } {
  const guarded = addressed(cluster.pods).flatMap((pod) =>
    (['Egress', 'Ingress'] as const).flatMap((direction) => {
      const policies = cluster.policies.filter((policy) => isolates(policy, direction, pod));
      if (policies.length === 0) return [];
      const chain = `SEMB-${direction[0]}-${hash(pod.metadata.uid)}`;
      const allowed = policies.flatMap((policy) =>
        rulesOf(policy, direction).flatMap((rule) => matchesOf(rule, direction, policy, cluster)),
      );
      const address = `${pod.status?.podIP}/32`;
      const side = direction === 'Egress' ? '-s' : '-d';
      return [{ chain, address, side, lines: [...new Set(allowed)].map((match) => `${match} -j RETURN`) }];
    }),
  );
  const chains = guarded.map(({ chain }) => chain);
  const gone = (former ?? []).filter((chain) => !chains.includes(chain));
  const lines = [
    '*filter',
    ...[CHAIN, ...chains, ...gone].map((chain) => `:${chain} - [0:0]`),
    // Our rule must be first, because kube-proxy puts its rules in front and some of them accept.
    ...HOOKS.flatMap((hook) => [...(former ? [`-D ${hook} -j ${CHAIN}`] : []), `-I ${hook} 1 -j ${CHAIN}`]),
    `-A ${CHAIN} -m conntrack --ctstate ESTABLISHED,RELATED -j RETURN`,
    ...[...new Set(guarded.map(({ address }) => address))].map(
      (address) => `-A ${CHAIN} -s ${address} -d ${address} -j RETURN`,
    ),
    ...guarded.map(({ chain, address, side }) => `-A ${CHAIN} ${side} ${address} -j ${chain}`),
    ...guarded.flatMap(({ chain, lines }) =>
      [...lines, '-j REJECT --reject-with icmp-admin-prohibited'].map((line) =>
        `-A ${chain} ${line}`.replaceAll(/ +/g, ' '),
      ),
    ),
    ...gone.map((chain) => `-X ${chain}`),
    'COMMIT',
  ];
  return { text: `${lines.join('\n')}\n`, chains };
}

function isolates({ metadata, spec }: Policy, direction: Direction, pod: Pod): boolean {
  const types = spec?.policyTypes ?? ['Ingress', ...(spec?.egress ? ['Egress'] : [])];
  return (
    types.includes(direction) &&
    metadata.namespace === pod.metadata.namespace &&
    selects(spec?.podSelector ?? {}, pod.metadata.labels)
  );
}

const rulesOf = ({ spec }: Policy, direction: Direction): Rule[] =>
  direction === 'Ingress'
    ? (spec?.ingress ?? []).map(({ _from, ports, ...rest }) => ({
        // The client library calls the field `_from`; on the wire it is `from`.
        peers: (rest as { from?: V1NetworkPolicyPeer[] }).from ?? _from,
        ports,
      }))
    : (spec?.egress ?? []).map(({ to, ports }) => ({ peers: to, ports }));

/**
 * Returns a match for every pair of range and ports that a rule allows; a rule without peers allows all addresses.
 */
function matchesOf({ peers, ports }: Rule, direction: Direction, policy: Policy, cluster: Cluster): string[] {
  const side = direction === 'Egress' ? '-d' : '-s';
  const ranges = peers?.length
    ? peers
        .flatMap((peer) => rangesOf(peer, policy.metadata.namespace, cluster))
        .map((range) => `${side} ${range}`)
    : [''];
  const services = ports?.length ? ports.map(serviceOf) : [''];
  return ranges.flatMap((range) => services.map((service) => `${range} ${service}`.trim()));
}

function serviceOf({ port, endPort, protocol = 'TCP' }: V1NetworkPolicyPort): string {
  if (typeof port === 'string')
    throw new Error(`the port ${port} of a NetworkPolicy has a name, not a number`);
  const match = `-p ${protocol.toLowerCase()}`;
  return port === undefined ? match : `${match} --dport ${port}${endPort ? `:${endPort}` : ''}`;
}

const hash = (uid = '') => createHash('sha256').update(uid).digest('hex').slice(0, 16);
