import { createKubeClient, createReflector } from '@semblance/common/kube/index';
import { silentLogger } from '@semblance/common/logging';
import { GPUAGENT_RESOURCE, type GpuAgent } from '@semblance/crds/gen/gpuagents';
import { createNodesAndPods, type NodesAndPods } from '@semblance/testkit/operator/nodes-and-pods';
import { testKube } from '@semblance/testkit/servers/shared';
import { Registry } from 'prom-client';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { POD_RESOURCE } from '../pools/pod.ts';
import { createDisruptionWatch, type DisruptionWatch } from './disruption-watch.ts';

const ending = new AbortController();
/** Stands for the reflector of GpuAgents. */
const known = new Map<string, GpuAgent>();
let close: () => Promise<void>;
let cluster: NodesAndPods;
let watch: DisruptionWatch;
let agent: (name: string, node: string, incarnation: string) => Promise<GpuAgent>;

beforeAll(async () => {
  const kube = await testKube();
  const { namespace } = kube;
  const client = createKubeClient({ kubeconfigPath: kube.kubeconfigPath, fieldManager: 'semblance-test' });
  cluster = createNodesAndPods({ ...kube, client });
  const common = { client, namespace, logger: silentLogger(), registry: new Registry() };
  const pods = createReflector({ ...common, resource: POD_RESOURCE });
  watch = createDisruptionWatch({
    ...common,
    pods,
    agents: { get: (name) => known.get(name), list: () => [...known.values()] },
    onChanged: () => {},
  });
  const running = Promise.all([watch.run(ending.signal), pods.run(ending.signal)]);
  await watch.known(ending.signal);
  agent = async (name, node, incarnation) => {
    await client.apply(GPUAGENT_RESOURCE, { metadata: { name, namespace }, spec: {} });
    await cluster.pod(name, node);
    const made = await client.get(GPUAGENT_RESOURCE, { name, namespace });
    const status = { ...made.status, incarnation, node } as GpuAgent['status'];
    known.set(name, { ...made, status });
    return known.get(name) as GpuAgent;
  };
  close = async () => {
    ending.abort(new Error('the test ends'));
    await running;
    await cluster.close();
    await client.close();
    await kube.close();
  };
});
afterAll(() => close());

const reasonOf = (of: GpuAgent) => expect.poll(() => watch.of(of)?.reason);

it('a cordon that was called off explains no end', async () => {
  const node = await cluster.node();
  const one = await agent('one', node, 'i1');
  await reasonOf(one).toBeUndefined();
  expect(watch.endOf('one', 'i1')).toBeUndefined();
  await cluster.cordon(node, true);
  await reasonOf(one).toBe('NodeCordoned');
  expect(watch.endOf('one', 'i1')).toBe(`Its node ${node} is cordoned.`);
  // Nothing is known of another process of that name.
  expect(watch.endOf('one', 'i0')).toBeUndefined();
  await cluster.cordon(node, false);
  await reasonOf(one).toBeUndefined();
  expect(watch.endOf('one', 'i1')).toBeUndefined();
});

it('a Pod that is gone explains the end of what ran in it, whether or not it was seen to go', async () => {
  const node = await cluster.node();
  const two = await agent('two', node, 'i1');
  await reasonOf(two).toBeUndefined();
  await cluster.deletePod('two');
  await reasonOf(two).toBe('PodTerminating');
  await cluster.deletePod('two', 'now');
  await reasonOf(two).toBeUndefined();
  expect(watch.endOf('two', 'i1')).toBe('Its Pod two is being deleted.');
  // Another process has taken the name, in another Pod.
  known.set('two', { ...two, status: { ...two.status, incarnation: 'i2' } as GpuAgent['status'] });
  expect(watch.endOf('two', 'i1')).toBe('Its Pod two is being deleted.');

  // This operator did not see the Pod go: the GpuAgent names a Pod that does not exist, or is gone itself.
  known.set('three', { ...two, metadata: { ...two.metadata, name: 'three' } });
  expect(watch.endOf('three', 'i1')).toBe('Its Pod was deleted.');
  expect(watch.endOf('four', 'i1')).toBe('Its Pod was deleted.');
});

it('an agent without a Pod is judged by the node it names', async () => {
  const node = await cluster.node();
  const metadata = { name: 'bare' };
  const status = { incarnation: 'i1', node } as GpuAgent['status'];
  const bare = { metadata, spec: {}, status } as GpuAgent;
  known.set('bare', bare);
  await cluster.cordon(node, true);
  await reasonOf(bare).toBe('NodeCordoned');
  await cluster.cordon(node, false);
  await reasonOf(bare).toBeUndefined();
  expect(watch.endOf('bare', 'i1')).toBeUndefined();
});
