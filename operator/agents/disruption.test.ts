import { describe, expect, it } from 'vitest';
import type { Pod } from '../pools/pod.ts';
import { disruptionOf, type NodeObject } from './disruption.ts';

const node = (spec: NodeObject['spec']): NodeObject => ({ metadata: { name: 'n1' }, spec });
const tainted = (key: string, effect: string) => node({ taints: [{ key, effect }] });
const pod = (more: Partial<Pod> = {}): Pod => ({ metadata: { name: 'p1' }, ...more });
const target = (reason?: string): Pod['status'] => ({
  conditions: [{ type: 'DisruptionTarget', status: 'True' }],
  ...(reason ? { reason } : {}),
});
const leaving = pod({ metadata: { name: 'p1', deletionTimestamp: '2026-01-01T00:00:00Z' } });

describe('what a Pod and its node say of the future of an agent', () => {
  const table: [string, Pod | undefined, NodeObject | undefined, string | undefined][] = [
    ['neither is known', undefined, undefined, undefined],
    ['both are well', pod(), node({}), undefined],
    ['the Pod is being deleted', leaving, node({}), 'PodTerminating'],
    ['on a cordoned node too', leaving, node({ unschedulable: true }), 'PodTerminating'],
    ['the Pod is evicted on request', pod({ status: target() }), undefined, 'PodTerminating'],
    ['its node is shut down', pod({ status: target('Terminated') }), undefined, 'PodTerminating'],
    ['its work took too much memory', pod({ status: target('Evicted') }), undefined, undefined],
    ['cordoned', pod(), node({ unschedulable: true }), 'NodeCordoned'],
    ['cordoned, and no Pod', undefined, node({ unschedulable: true }), 'NodeCordoned'],
    [
      'cordoned by its taint alone',
      pod(),
      tainted('node.kubernetes.io/unschedulable', 'NoSchedule'),
      'NodeCordoned',
    ],
    ['not ready for long', pod(), tainted('node.kubernetes.io/not-ready', 'NoExecute'), 'NodeCordoned'],
    ['not ready yet', pod(), tainted('node.kubernetes.io/not-ready', 'NoSchedule'), undefined],
    ['out of service', pod(), tainted('node.kubernetes.io/out-of-service', 'NoExecute'), 'NodeCordoned'],
    [
      'unreachable, which its Lease decides',
      pod(),
      tainted('node.kubernetes.io/unreachable', 'NoExecute'),
      undefined,
    ],
    ['kept for GPUs', pod(), tainted('nvidia.com/gpu', 'NoSchedule'), undefined],
  ];
  it.each(table)('%s', (_, ofPod, ofNode, reason) => {
    expect(disruptionOf(ofPod, ofNode)?.reason).toBe(reason);
  });

  it('names what is to be looked at', () => {
    expect(disruptionOf(leaving, undefined)?.message).toContain('Pod p1');
    expect(disruptionOf(pod(), node({ unschedulable: true }))?.message).toContain('node n1');
    const { message } = disruptionOf(pod(), tainted('node.kubernetes.io/out-of-service', 'NoExecute')) ?? {};
    expect(message).toContain('node.kubernetes.io/out-of-service:NoExecute');
  });
});
