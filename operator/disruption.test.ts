import { CODE_KEY } from '@semblance/common/grpc/status';
import type { GpuAgent } from '@semblance/crds/gen/gpuagents';
import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import { type Allocations, allocationOf, createAllocations } from '@semblance/testkit/operator/allocate';
import type { Run } from '@semblance/testkit/operator/fake-agent';
import { createHarness, type Harness, readyOf, waits } from '@semblance/testkit/operator/harness';
import {
  createNodesAndPods,
  type NodesAndPods,
  restrictedKubeconfig,
} from '@semblance/testkit/operator/nodes-and-pods';
import { conditionOf, poolTools } from '@semblance/testkit/operator/pools';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

let harness: Harness;
let cluster: NodesAndPods;
let allocations: Allocations;

beforeEach(async () => {
  harness = await createHarness();
  cluster = createNodesAndPods(harness);
  allocations = createAllocations(harness);
});

afterEach(async () => {
  allocations.close();
  await cluster.close();
  await harness.close();
});

const phase = (name: string) => (job: RenderJob) => job.status?.phase === name;
const ready = ({ status }: GpuAgent) => status?.conditions?.find(({ type }) => type === 'Ready');
const readyReason = (reason: string) => (agent: GpuAgent) => ready(agent)?.reason === reason;
const succeed = (run: Run) => run.succeed();

describe('an agent on a node', () => {
  it('that is cordoned gets no work and no live session, and takes both again when it is uncordoned', async () => {
    const runs: Run[] = [];
    const agent = await harness.agent({
      name: 'a',
      script: (run) => void runs.push(run),
      live: { voice: 1 },
    });
    const node = await cluster.node();
    await cluster.pod('a', node);
    await harness.operator();
    await harness.agentUntil('a', readyReason('Ready'));
    await harness.job('running');
    await harness.until('running', phase('Running'));

    await cluster.cordon(node, true);
    const cordoned = await harness.agentUntil('a', readyReason('NodeCordoned'));
    expect(ready(cordoned)).toMatchObject({
      status: 'False',
      message: `Its node ${node} is cordoned. It gets no new work.`,
    });
    // The agent itself says that it takes work.
    expect(cordoned.status).toMatchObject({ draining: false, slots: 2 });
    await harness.job('waiting');
    const waiting = await harness.until('waiting', waits('AgentsDraining', 1));
    expect(readyOf(waiting)?.message).toContain('(a: NodeCordoned)');
    const refused = await allocations.allocate(allocationOf('s-1')).catch((error) => error);
    expect(refused.metadata?.get(CODE_KEY)[0]).toBe('capacity_unavailable');

    // Running work is allowed to end.
    runs[0]?.succeed();
    await harness.until('running', phase('Succeeded'));
    expect(agent.stops).toEqual([]);
    expect(agent.starts).toHaveLength(1);

    await cluster.cordon(node, false);
    await harness.until('waiting', phase('Running'));
    const { address } = await allocations.allocate(allocationOf('s-2'));
    expect(address).toBe(agent.address);
  });

  it('whose Pod is deleted gets no more work, and what is lost with it does not count against the job', async () => {
    const leaving = await harness.agent({ name: 'a', leaseSeconds: 8, script: () => {} });
    await cluster.pod('a', await cluster.node());
    await harness.operator();
    await harness.agentUntil('a', readyReason('Ready'));
    await harness.job('moved', { backoffLimit: 0 });
    await harness.until('moved', phase('Running'));

    await cluster.deletePod('a');
    await harness.agentUntil('a', readyReason('PodTerminating'));
    await harness.agent({ name: 'b', script: succeed });
    await harness.job('later');
    expect((await harness.until('later', phase('Succeeded'))).status?.agent).toBe('b');
    expect((await harness.get('moved')).status).toMatchObject({ attempt: 1, phase: 'Running' });

    const history = await harness.history();
    await cluster.deletePod('a', 'now');
    await leaving.kill();
    const moved = await harness.until('moved', phase('Succeeded'));
    expect(moved.status).toMatchObject({ attempt: 2, agent: 'b' });
    expect(moved.status).not.toHaveProperty('lostAgents');
    expect(moved.status).not.toHaveProperty('interruptions');
    const reasons = history('moved').map((job) => job.status?.conditions?.[0]?.reason);
    expect(reasons).toContain('Disrupted');
  });
});

it('an operator that may see neither nodes nor Pods works without, says so, and sees them once it may', async () => {
  const verbs = ['*'];
  const rules = [
    { apiGroups: ['semblance.dev'], resources: ['*'], verbs },
    { apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs },
    { apiGroups: ['events.k8s.io'], resources: ['events'], verbs },
  ];
  const { path, allow } = await restrictedKubeconfig({ ...harness, rules });
  await harness.agent({ name: 'a', script: succeed });
  const node = await cluster.node();
  await cluster.pod('a', node);
  await cluster.cordon(node, true);
  const { healthPort } = await harness.operator({ kubeconfigPath: path, deniedRetryMs: 200 });
  await harness.job('done');
  await harness.until('done', phase('Succeeded'));
  const page = async (name: string) => {
    const answer = await fetch(`http://127.0.0.1:${healthPort}/${name}`);
    return `${answer.status}\n${await answer.text()}`;
  };
  await expect
    .poll(() => page('readyz'))
    .toMatch(/^200\n[\s\S]*nodes: not watched, cordons are not seen \(.*nodes.*forbidden/);
  expect(await page('metrics')).toMatch(/semblance_disruption_watched{resource="nodes".*} 0/);

  // Pools are not managed either, as the status of each says.
  const pools = poolTools(harness);
  await pools.create('gpu', { replicas: 1 });
  const told = await pools.until('gpu', (pool) => conditionOf(pool, 'Ready') !== undefined);
  expect(conditionOf(told, 'Ready')).toMatchObject({
    status: 'Unknown',
    reason: 'PodsForbidden',
    message: expect.stringMatching(/^The operator may not read Pods.*pods.*forbidden/),
  });
  await expect.poll(() => page('readyz')).toMatch(/^200\n[\s\S]*agentpools: not managed: .*pods.*forbidden/);
  expect(await page('metrics')).toMatch(/semblance_pools_watched{.*} 0/);

  const read = { apiGroups: [''], resources: ['nodes', 'pods'], verbs: ['get', 'list', 'watch', 'create'] };
  const withdraw = await allow([read]);
  try {
    await harness.agentUntil('a', readyReason('NodeCordoned'));
    // Each list is read again on its own schedule.
    await expect.poll(() => page('readyz')).toMatch(/nodes: ok[\s\S]*agentpools: ok/);
    await expect.poll(() => page('metrics')).toMatch(/semblance_pools_watched{.*} 1/);
    const managed = await pools.until(
      'gpu',
      (pool, pods) => pods.length === 1 && conditionOf(pool, 'Ready')?.reason !== 'PodsForbidden',
    );
    expect(managed.status?.desiredReplicas).toBe(1);
    await expect.poll(() => page('metrics')).toMatch(/semblance_disruption_watched{resource="nodes".*} 1/);
  } finally {
    await withdraw();
  }
});

it('an operator that may not read AgentPools manages none and says so, and does all else', async () => {
  const verbs = ['*'];
  const rules = [
    {
      apiGroups: ['semblance.dev'],
      resources: ['renderjobs', 'livesessions', 'gpuagents'].flatMap(all),
      verbs,
    },
    { apiGroups: ['coordination.k8s.io'], resources: ['leases'], verbs },
    { apiGroups: ['events.k8s.io'], resources: ['events'], verbs },
    { apiGroups: [''], resources: ['pods'], verbs },
  ];
  const { path, allow } = await restrictedKubeconfig({ ...harness, rules });
  await harness.agent({ name: 'a', script: succeed });
  // Pods need this in a cluster without controllers.
  await cluster.pod('a', await cluster.node());
  const pools = poolTools(harness);
  await pools.create('gpu', { replicas: 1 });
  const { healthPort } = await harness.operator({ kubeconfigPath: path, deniedRetryMs: 200 });
  await harness.job('done');
  await harness.until('done', phase('Succeeded'));
  const page = async (name: string) => (await fetch(`http://127.0.0.1:${healthPort}/${name}`)).text();
  await expect
    .poll(() => page('readyz'))
    .toMatch(/agentpools: not managed: .*agentpools.*forbidden[\s\S]*\nok\n$/);
  expect(await page('metrics')).toMatch(/semblance_pools_watched{.*} 0/);
  expect((await pools.get('gpu')).status).toBeUndefined();

  const withdraw = await allow([{ apiGroups: ['semblance.dev'], resources: all('agentpools'), verbs }]);
  try {
    await pools.until('gpu', (_, pods) => pods.length === 1);
    await expect.poll(() => page('readyz')).toContain('agentpools: ok');
    await expect.poll(() => page('metrics')).toMatch(/semblance_pools_watched{.*} 1/);
  } finally {
    await withdraw();
  }
});

const all = (resource: string) => [resource, `${resource}/status`];
