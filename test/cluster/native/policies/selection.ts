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
/** All that decides who may reach whom. */
export type Cluster = {
  readonly policies: readonly Policy[];
  readonly pods: readonly Pod[];
  readonly namespaces: readonly Namespace[];
};

type Labels = Readonly<Record<string, string>> | undefined;

/** Whether labels are those a selector asks for; an empty selector asks for nothing. */
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

/** Pods that have an address of their own: neither ended, whose address may be another's by now, nor the node's. */
export const addressed = (pods: readonly Pod[]) =>
  pods.filter(
    ({ spec, status }) =>
      status?.podIP && !spec?.hostNetwork && status.phase !== 'Succeeded' && status.phase !== 'Failed',
  );

/** IPv4 ranges that a peer stands for, as seen from a namespace. */
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

/** A range less another one, as the ranges that are left. */
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
