import { CODE_KEY } from '@semblance/common/grpc/status';
import { GPUAGENT_RESOURCE } from '@semblance/crds/gen/gpuagents';
import { allocationOf, createAllocations } from '@semblance/testkit/operator/allocate';
import type { Run } from '@semblance/testkit/operator/fake-agent';
import { type FakeKubelet, startFakeKubelet } from '@semblance/testkit/operator/fake-kubelet';
import { createHarness, type Harness } from '@semblance/testkit/operator/harness';
import { conditionOf, poolTools, stands, template } from '@semblance/testkit/operator/pools';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { POD_RESOURCE } from './pod.ts';

let harness: Harness;
let kubelet: FakeKubelet;
let tools: ReturnType<typeof poolTools>;
let runs: Run[];

beforeEach(async () => {
  harness = await createHarness();
  tools = poolTools(harness);
  runs = [];
  kubelet = await startFakeKubelet(harness, {
    slots: 1,
    live: { voice: 2 },
    script: (run) => void runs.push(run),
  });
});

afterEach(async () => {
  await kubelet?.close();
  await harness?.close();
});

const phase = (name: string) => (job: { status?: { phase?: string } }) => job.status?.phase === name;
const scaled = (bounds: object = {}) => ({
  capabilities: ['face-swap-image' as const, 'voice' as const],
  autoscaling: { minReplicas: 0, maxReplicas: 2, idleSeconds: 0, ...bounds },
});

describe('a pool of fixed size', () => {
  it('fetches its model sets before its agents start', async () => {
    kubelet.fateOf = () => 'pending';
    await harness.operator();
    await tools.create('gpu', { replicas: 1, modelSets: ['faces'] });
    const pool = await tools.until('gpu', (_, pods) => pods.length === 1);
    const [pod] = await tools.pods(pool);
    // The API has taken the Pod as the operator made it.
    expect(pod?.spec).toMatchObject({
      initContainers: [{ name: 'models-1', volumeMounts: expect.any(Array) }],
      volumes: expect.arrayContaining([
        expect.objectContaining({ configMap: expect.objectContaining({ name: 'faces' }) }),
      ]),
    });
    await expect(tools.patch('gpu', { modelSets: ['No Name'] })).rejects.toThrow(/modelSets/);
  });

  it('has its Pods, owned, labelled and told who they are; replaces and removes them; and then writes nothing', async () => {
    await harness.operator();
    const made = await tools.create('gpu', { replicas: 3 });
    const pool = await tools.until('gpu', stands(3));
    expect(conditionOf(pool, 'Ready')).toMatchObject({ status: 'True', reason: 'AgentsReady' });
    expect(pool.status).toMatchObject({ slots: 9, slotsUsed: 0, selector: 'semblance.dev/pool=gpu' });
    expect(pool.status?.currentRevision).toBe(pool.status?.updateRevision);
    const [pod] = await tools.pods(pool);
    expect(pod?.metadata).toMatchObject({
      name: expect.stringMatching(/^gpu-[a-z0-9]{5}$/),
      labels: {
        'semblance.dev/pool': 'gpu',
        'semblance.dev/revision': pool.status?.updateRevision,
        'app.kubernetes.io/component': 'agent',
      },
      ownerReferences: [{ kind: 'AgentPool', name: 'gpu', uid: made.metadata.uid, controller: true }],
    });

    // Somebody removes all Pods by hand, at once.
    const before = await tools.pods(pool);
    await Promise.all(before.map(({ metadata }) => tools.remove(metadata.name ?? '')));
    const names = new Set(before.map(({ metadata }) => metadata.name));
    await tools.until(
      'gpu',
      (now, pods) =>
        stands(3)(now, pods) &&
        kubelet.made.length === 6 &&
        pods.every(({ metadata }) => !names.has(metadata.name)),
    );
    expect(kubelet.most).toBe(3);

    await tools.patch('gpu', { replicas: 1 });
    const small = await tools.until('gpu', stands(1));
    await new Promise((resolve) => setTimeout(resolve, 2_500));
    expect((await tools.get('gpu')).metadata.resourceVersion).toBe(small.metadata.resourceVersion);
    expect(kubelet.made).toHaveLength(6);
  });

  it('lets work finish on an agent that goes, and keeps it when it is wanted again', async () => {
    await harness.operator();
    await tools.create('gpu', { replicas: 2 });
    await tools.until('gpu', stands(2));
    await Promise.all(['one', 'two'].map((name) => harness.job(name)));
    for (const name of ['one', 'two']) await harness.until(name, phase('Running'));
    await tools.patch('gpu', { replicas: 0 });
    await tools.until('gpu', ({ status }) => status?.drainingReplicas === 2 && status.busyReplicas === 2);
    await tools.patch('gpu', { replicas: 1 });
    await tools.until('gpu', ({ status }) => status?.drainingReplicas === 1 && status.readyReplicas === 1);
    for (const run of runs) run.succeed();
    for (const name of ['one', 'two']) await harness.until(name, phase('Succeeded'));
    await tools.until('gpu', stands(1));
    expect(kubelet.made).toHaveLength(2);
    expect(runs).toHaveLength(2);
  });
});

describe('a pool that scales by work', () => {
  it('starts from nothing for a RenderJob, and goes again', async () => {
    await harness.operator();
    kubelet.fateOf = () => 'unschedulable';
    await tools.create('gpu', scaled());
    await tools.until('gpu', ({ status }) => status?.desiredReplicas === 0);
    const names = ['a', 'b', 'c'];
    for (const name of names) await harness.job(name);
    const reason = (of: string) => (job: Awaited<ReturnType<Harness['get']>>) =>
      job.status?.conditions?.some((each) => each.type === 'Ready' && each.reason === of) ?? false;
    const told = await harness.until('a', reason('PoolScalingUp'));
    expect(told.status?.conditions?.[0]?.message).toMatch(/pool gpu is starting agents, 0 of [12] ready\.$/);
    const pool = await tools.until(
      'gpu',
      (of) =>
        of.status?.replicas === 2 &&
        of.status.slotsWaiting === 3 &&
        conditionOf(of, 'Ready')?.reason === 'Unschedulable' &&
        conditionOf(of, 'ScalingLimited')?.reason === 'AtMaximum',
    );
    expect(conditionOf(pool, 'Ready')?.message).toContain('Insufficient nvidia.com/gpu');
    expect(conditionOf(pool, 'ScalingLimited')?.status).toBe('True');

    for (const name of kubelet.made) await kubelet.start(name);
    await harness.until('c', reason('PoolAtMaximum'));
    const finished = (job: Parameters<ReturnType<typeof phase>>[0]) => {
      for (const run of runs) run.succeed();
      return phase('Succeeded')(job);
    };
    for (const name of names) await harness.until(name, finished);
    await tools.until('gpu', stands(0));
    expect(kubelet.made).toHaveLength(2);
    expect((await tools.get('gpu')).status?.perAgent).toMatchObject({
      slots: 1,
      renders: [{ name: 'face-swap-image', slots: 1 }],
      live: [{ name: 'voice', slots: 2 }],
    });
  });

  it('starts from nothing for a live session, which is told that capacity is starting', async () => {
    await harness.operator();
    const allocations = createAllocations(harness);
    kubelet.fateOf = () => 'pending';
    await tools.create('gpu', scaled({ maxReplicas: 1, idleSeconds: 300 }));
    await tools.until('gpu', ({ status }) => status?.desiredReplicas === 0);
    const open = (session: string) =>
      allocations.allocate(allocationOf(session)).then(
        () => 'open',
        (error) => error.metadata?.get(CODE_KEY)[0] ?? error,
      );
    expect(await open('s1')).toBe('capacity_warming');
    await tools.until('gpu', ({ status }) => status?.replicas === 1);
    // The pool is at its maximum, but an agent is starting, so a retry makes sense.
    expect(await open('s2')).toBe('capacity_warming');
    await kubelet.start(kubelet.made[0] ?? '');
    await tools.until('gpu', stands(1));
    expect(await open('s3')).toBe('open');
    expect(await open('s4')).toBe('open');
    expect(await open('s5')).toBe('capacity_unavailable');
    await tools.until('gpu', ({ status }) => status?.slotsUsed === 2 && status.busyReplicas === 1);
    allocations.close();
  });

  it('starts no second agent for sessions that have the slots of the first, however long binding them takes', async () => {
    await harness.operator();
    const allocations = createAllocations(harness);
    await tools.create('gpu', scaled({ idleSeconds: 300 }));
    await tools.until('gpu', ({ status }) => status?.desiredReplicas === 0);
    const open = (session: string, account: string) =>
      allocations.allocate(allocationOf(session, { account }));
    await expect(open('s1', 'acc-1')).rejects.toThrow();
    await tools.until('gpu', stands(1));
    const { live } = kubelet.agents.get(kubelet.made[0] ?? '') ?? {};
    if (!live) throw new Error('no agent was started');
    // The agent reports the slot as taken before it answers. So may the API server with a write.
    live.beforeAnswer = () => new Promise((resolve) => setTimeout(resolve, 1_300));
    // An account that was never refused has the first slot, a refused one the last.
    for (const [session, account, used] of [
      ['s2', 'acc-2', 1],
      ['s3', 'acc-1', 2],
    ] as const) {
      const opened = open(session, account);
      await tools.until('gpu', ({ status }) => status?.slotsUsed === used);
      await opened;
    }
    expect((await tools.get('gpu')).status?.desiredReplicas).toBe(1);
    expect(kubelet.made).toHaveLength(1);
    allocations.close();
  });

  it('drains those beyond a maximum that is lowered below what is used', async () => {
    await harness.operator();
    await tools.create('gpu', scaled({ idleSeconds: 300 }));
    for (const name of ['a', 'b']) await harness.job(name);
    for (const name of ['a', 'b']) await harness.until(name, phase('Running'));
    await tools.patch('gpu', { autoscaling: { maxReplicas: 1 } });
    await tools.until('gpu', ({ status }) => status?.drainingReplicas === 1 && status.desiredReplicas === 1);
    for (const run of runs) run.succeed();
    await tools.until('gpu', stands(1));
    for (const name of ['a', 'b']) await harness.until(name, phase('Succeeded'));
    expect(runs).toHaveLength(2);
  });
});

describe('a changed template', () => {
  it('is rolled out with one more at most, all agents ready throughout, work finished; twice if it changes twice', async () => {
    await harness.operator();
    await tools.create('gpu', { replicas: 2 });
    await tools.until('gpu', stands(2));
    await harness.job('long');
    await harness.until('long', phase('Running'));
    let fewest = 2;
    const watched = (image: string) =>
      tools.until('gpu', (pool, pods) => {
        const serving = pool.status?.readyReplicas ?? 0;
        fewest = Math.min(fewest, serving);
        const images = pods.map(
          ({ spec }) => (spec as { containers: { image: string }[] }).containers[0]?.image,
        );
        if (images.includes(image)) runs[0]?.succeed();
        return stands(2)(pool, pods) && images.every((each) => each === image);
      });
    await tools.patch('gpu', { template: template('agent:2') });
    await tools.until('gpu', ({ status }) => (status?.updatedReplicas ?? 0) === 1 && status?.replicas === 3);
    await tools.patch('gpu', { template: template('agent:3') });
    await watched('agent:3');
    expect(kubelet.most).toBe(3);
    expect(fewest).toBe(2);
    await harness.until('long', phase('Succeeded'));
    expect(runs).toHaveLength(1);
  });

  it('that cannot start leaves the agents that serve, and says why', async () => {
    await harness.operator();
    await tools.create('gpu', { replicas: 1 });
    await tools.until('gpu', stands(1));
    kubelet.fateOf = () => 'no-image';
    await tools.patch('gpu', { template: template('agent:wrong') });
    const pool = await tools.until(
      'gpu',
      (of) => conditionOf(of, 'Progressing')?.reason === 'ImagePullBackOff',
    );
    expect(conditionOf(pool, 'Progressing')?.message).toContain('Back-off pulling image');
    expect(pool.status).toMatchObject({ readyReplicas: 1, replicas: 2, updatedReplicas: 1 });
    kubelet.fateOf = () => 'run';
    await tools.patch('gpu', { template: template('agent:1') });
    await tools.until('gpu', stands(1));
    expect(kubelet.made).toHaveLength(2);
  });
});

describe('what fails', () => {
  it('is not made again in a circle, and is made again later', async () => {
    await harness.operator({ poolFaultPauseMs: 2_000 });
    let failing = true;
    kubelet.fateOf = () => (failing ? 'fail' : 'run');
    await tools.create('gpu', { replicas: 1 });
    const pool = await tools.until('gpu', (of) => conditionOf(of, 'Ready')?.reason === 'OutOfcpu');
    expect(conditionOf(pool, 'Ready')?.message).toContain('the node has no cpu left');
    failing = false;
    await tools.until('gpu', stands(1));
    expect(kubelet.made.length).toBeLessThanOrEqual(3);
  });

  it('because the API refuses the Pod says so', async () => {
    await harness.operator();
    const wrong = { spec: { containers: [{ name: 'Not A Name', image: 'agent:1' }] } };
    await tools.create('gpu', { replicas: 1, template: wrong });
    const pool = await tools.until('gpu', (of) => conditionOf(of, 'Ready')?.reason === 'CreateFailed');
    expect(conditionOf(pool, 'Ready')?.message).toContain('Not A Name');
    await tools.patch('gpu', { template: template() });
    await tools.until('gpu', stands(1));
  });

  it('does not touch Pods that only bear its label, nor what a person drains', async () => {
    await harness.operator();
    const stray = {
      metadata: { name: 'stray', namespace: harness.namespace, labels: { 'semblance.dev/pool': 'gpu' } },
      spec: template().spec,
    };
    await harness.client.create(POD_RESOURCE, stray);
    await tools.create('gpu', { replicas: 1 });
    const pool = await tools.until('gpu', stands(1));
    const [pod] = await tools.pods(pool);
    const ref = { namespace: harness.namespace, name: pod?.metadata.name ?? '' };
    await harness.client.mergePatch(GPUAGENT_RESOURCE, ref, { spec: { drain: true } });
    const drained = await tools.until(
      'gpu',
      (of) => conditionOf(of, 'Ready')?.reason === 'AgentsOutOfService',
    );
    expect(drained.status).toMatchObject({ replicas: 1, drainingReplicas: 0 });
    await harness.client.mergePatch(GPUAGENT_RESOURCE, ref, { spec: { drain: false } });
    await tools.until('gpu', stands(1));
    expect(await harness.client.find(POD_RESOURCE, { ...ref, name: 'stray' })).toBeDefined();
  });
});
