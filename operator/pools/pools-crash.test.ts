import { createRegistry } from '@semblance/common/health';
import { createEventRecorder, createReflector, type Reflector } from '@semblance/common/kube/index';
import { silentLogger } from '@semblance/common/logging';
import { AGENTPOOL_RESOURCE } from '@semblance/crds/gen/agentpools';
import type { GpuAgent } from '@semblance/crds/gen/gpuagents';
import { type FakeKubelet, startFakeKubelet } from '@semblance/testkit/operator/fake-kubelet';
import { createHarness, type Harness } from '@semblance/testkit/operator/harness';
import { createOperatorProcesses } from '@semblance/testkit/operator/operator-process';
import { poolTools, stands } from '@semblance/testkit/operator/pools';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createPoolController } from './controller.ts';
import { POD_RESOURCE, type Pod } from './pod.ts';
import { podOf } from './template.ts';
import { NO_DEMAND } from './types.ts';

let harness: Harness;
let kubelet: FakeKubelet;
let tools: ReturnType<typeof poolTools>;

beforeEach(async () => {
  harness = await createHarness();
  tools = poolTools(harness);
  kubelet = await startFakeKubelet(harness, { script: () => {} });
});

afterEach(async () => {
  await kubelet?.close();
  await harness?.close();
});

const made = (count: number) => async () => {
  while (kubelet.made.length < count) await new Promise((resolve) => setTimeout(resolve, 2));
};

describe('never more Pods than are wanted', () => {
  it('when an operator ended after it had claimed names, with some of the Pods made', async () => {
    const pool = await tools.create('gpu', { replicas: 3 });
    await harness.client.mergePatch(
      AGENTPOOL_RESOURCE,
      { namespace: harness.namespace, name: 'gpu' },
      { status: { creating: ['gpu-aaaaa', 'gpu-bbbbb'] } },
      { subresource: 'status' },
    );
    await harness.client.create(POD_RESOURCE, podOf(pool, 'gpu-aaaaa'));
    await harness.operator();
    await tools.until('gpu', stands(3));
    expect(kubelet.made).toHaveLength(3);
    expect(kubelet.made).toEqual(expect.arrayContaining(['gpu-aaaaa', 'gpu-bbbbb']));
  });

  it('when the operator is killed in the midst of making them, twice', async () => {
    kubelet.fateOf = () => 'pending';
    const lease = {
      SEMBLANCE_OPERATOR_LEASE_SECONDS: '3',
      SEMBLANCE_OPERATOR_RENEW_DEADLINE_SECONDS: '2',
      SEMBLANCE_OPERATOR_RENEW_SECONDS: '0.5',
    };
    const processes = await createOperatorProcesses(harness);
    try {
      const first = await processes.start('first', lease);
      const second = await processes.start('second', lease);
      await Promise.all([first.ready(), second.ready()]);
      await tools.create('gpu', { replicas: 40 });
      await made(3)();
      await Promise.all([first.kill('SIGKILL'), second.kill('SIGKILL')]);
      await tools.patch('gpu', { replicas: 60 });
      const third = await processes.start('third', lease);
      await made(kubelet.made.length + 1)();
      await third.kill('SIGKILL');
      await processes.start('fourth', lease);
      await tools.until('gpu', ({ status }, pods) => pods.length === 60 && status?.creating === undefined);
      expect(kubelet.made).toHaveLength(60);
    } finally {
      await processes.close();
    }
  });

  it('when one operator hands over to another in the midst of making them', async () => {
    kubelet.fateOf = () => 'pending';
    const first = await harness.operator();
    await harness.operator();
    await tools.create('gpu', { replicas: 30 });
    await made(2)();
    await first.close();
    await tools.until('gpu', ({ status }, pods) => pods.length === 30 && status?.replicas === 30);
    expect(kubelet.made).toHaveLength(30);
  });

  it('when the operator sees none of the Pods it made', async () => {
    const { client, namespace } = harness;
    const ending = new AbortController();
    const logger = silentLogger();
    const registry = createRegistry('test');
    const pools = createReflector({ client, namespace, logger, resource: AGENTPOOL_RESOURCE });
    // A local copy that stays as it was before any Pod was created.
    const blind = { byIndex: () => [], get: () => undefined, note() {}, resync: async () => {} };
    let passes = 0;
    const controller = createPoolController({
      client,
      namespace,
      pools,
      logger,
      registry,
      pods: blind as unknown as Reflector<Pod>,
      agents: { get: () => undefined } as unknown as Reflector<GpuAgent>,
      fleet: { viewOf: () => expect.unreachable() },
      scheduler: { usedOn: () => 0 },
      live: { usedOn: () => new Map() },
      waitingJobs: () => {
        passes++;
        return NO_DEMAND;
      },
      onOutlook() {},
      recorder: createEventRecorder({ client, component: 'test', instance: 'test', logger }),
    });
    pools.addHandlers(controller.poolHandlers);
    const running = [pools.run(ending.signal), pools.waitForSync().then(() => controller.run(ending.signal))];
    await tools.create('gpu', { replicas: 2 });
    await made(2)();
    const soon = passes + 3;
    while (passes < soon) await new Promise((resolve) => setTimeout(resolve, 20));
    expect(kubelet.made).toHaveLength(2);
    // Missing Pods are created all the same.
    await tools.remove(kubelet.made[0] ?? '');
    await made(3)();
    await tools.patch('gpu', { replicas: 3 });
    await made(4)();
    const later = passes + 3;
    while (passes < later) await new Promise((resolve) => setTimeout(resolve, 20));
    ending.abort();
    await Promise.all(running);
    expect(kubelet.made).toHaveLength(4);
    expect(kubelet.most).toBe(3);
  });
});
