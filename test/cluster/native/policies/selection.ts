import type {
  V1LabelSelector,
  V1NetworkPolicyPeer,
  V1NetworkPolicySpec,
  V1PodSpec,
} from '@kubernetes/client-node';
import type { KubeObject, Namespace } from '@semblance/common/kube/index';

export interface Policy extends KubeObject {
  readonly spec?: V1NetworkPolicySpec;
}
export interface Pod extends KubeObject {
  readonly spec?: V1PodSpec;
  readonly status?: { readonly phase?: string; readonly podIP?: string };
}
/** All objects that decide which connections are allowed. */
export type Cluster = {
  readonly policies: readonly Policy[];
  readonly pods: readonly Pod[];
  readonly namespaces: readonly Namespace[];
};

type Labels = Readonly<Record<string, string>> | undefined;

/** Tells whether a selector selects the labels; an empty selector selects all. */
export function selects(selector: V1LabelSelector, labels: Labels = {}): boolean {
  const equal = Object.entries(selector.matchLabels ?? {}).every(([key, value]) => labels[key] === value);
  return (
    equal &&
    (selector.matchExpressions ?? []).every(({ key, operator, values = [] }) => {
      const value = labels[key];
      switch (operator) {
        case 'In':
          return value !== undefined && values.includes(value);
        case 'NotIn':
          return value === undefined || !values.includes(value);
        case 'Exists':
          return value !== undefined;
        case 'DoesNotExist':
          return value === undefined;
        default:
          throw new Error(`a label selector has the operator ${operator}`);
      }
    })
  );
}

/**
 * Returns the Pods with their own address. Left out are Pods that use the node's address, and ended ones, whose
 * address may belong to another Pod.
 */
export const addressed = (pods: readonly Pod[]) =>
  pods.filter(
    ({ spec, status }) =>
      status?.podIP && !spec?.hostNetwork && status.phase !== 'Succeeded' && status.phase !== 'Failed',
  );

/** Returns the IPv4 ranges of a peer, as seen from a namespace. */
export function rangesOf(
  peer: V1NetworkPolicyPeer,
  namespace: string | undefined,
  cluster: Cluster,
): string[] {
  const { ipBlock, namespaceSelector, podSelector } = peer;
  if (ipBlock) {
    if (ipBlock.cidr.includes(':')) return [];
    return (ipBlock.except ?? []).reduce(
      (ranges, except) => ranges.flatMap((range) => without(range, except)),
      [ipBlock.cidr],
    );
  }
  const among = namespaceSelector
    ? cluster.namespaces.filter(({ metadata }) => selects(namespaceSelector, metadata.labels))
    : cluster.namespaces.filter(({ metadata }) => metadata.name === namespace);
  const names = new Set(among.map(({ metadata }) => metadata.name));
  return addressed(cluster.pods)
    .filter(({ metadata }) => names.has(metadata.namespace) && selects(podSelector ?? {}, metadata.labels))
    .map(({ status }) => `${status?.podIP}/32`);
}

/** Returns the ranges that remain of one range without another. */
export function without(range: string, except: string): string[] {
  const [from, bits] = parse(range);
  const [start, length] = parse(except);
  if (bits >= length) return sameRange(from, start, length) ? [] : [range];
  if (!sameRange(from, start, bits)) return [range];
  const half = 2 ** (31 - bits);
  return [from, from + half].flatMap((each) => without(`${text(each)}/${bits + 1}`, except));
}

const sameRange = (a: number, b: number, bits: number) =>
  Math.floor(a / 2 ** (32 - bits)) === Math.floor(b / 2 ** (32 - bits));

function parse(range: string): [number, number] {
  const [address = '', bits = '32'] = range.split('/');
  const value = address.split('.').reduce((sum, part) => sum * 256 + Number(part), 0);
  return [value, Number(bits)];
}

const text = (value: number) => [24, 16, 8, 0].map((shift) => Math.floor(value / 2 ** shift) % 256).join('.');
