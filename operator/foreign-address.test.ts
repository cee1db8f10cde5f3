import { createServer } from 'node:net';
import { GPUAGENT_RESOURCE } from '@semblance/crds/gen/gpuagents';
import { createHarness, type Harness } from '@semblance/testkit/operator/harness';
import { createNodesAndPods, type NodesAndPods } from '@semblance/testkit/operator/nodes-and-pods';
import { afterEach, beforeEach, expect, it } from 'vitest';

let harness: Harness;
let cluster: NodesAndPods;

beforeEach(async () => {
  harness = await createHarness();
  cluster = createNodesAndPods(harness);
});
afterEach(async () => {
  await cluster.close();
  await harness.close();
});

const readyOf = async (name: string) => {
  const agent = await harness.client.get(GPUAGENT_RESOURCE, { namespace: harness.namespace, name });
  return agent.status?.conditions?.find(({ type }) => type === 'Ready');
};

it('calls no agent that states the address of another, and sends no work there', async () => {
  let called = 0;
  const victim = createServer((socket) => {
    called++;
    socket.destroy();
  });
  await new Promise<void>((resolve) => victim.listen(0, '127.0.0.2', resolve));
  const { port } = victim.address() as { port: number };
  const status = { address: `127.0.0.2:${port}` };
  const script = () => {};
  const agent = await harness.agent({ name: 'rogue', script, live: { voice: 1 } });
  await cluster.pod('rogue', await cluster.node());
  const state = (to: object) =>
    harness.client.mergePatch(
      GPUAGENT_RESOURCE,
      { namespace: harness.namespace, name: 'rogue' },
      { status: to },
      { subresource: 'status' },
    );
  await state(status);
  await harness.operator({ internalToken: 'a token of the installation' });
  await expect
    .poll(() => readyOf('rogue'))
    .toMatchObject({
      status: 'False',
      reason: 'Unreachable',
      message: `The operator does not call it: it states the address ${status.address}, and its Pod rogue has 127.0.0.1.`,
    });
  await harness.job('waits');
  await harness.until('waits', (job) => job.status?.phase === 'Pending');
  expect(called).toBe(0);

  // Told the truth, it is called; a lie ends that.
  await state({ address: agent.address });
  await harness.until('waits', (job) => job.status?.phase === 'Running');
  await state(status);
  await expect.poll(() => readyOf('rogue')).toMatchObject({ status: 'False', reason: 'Unreachable' });
  expect(called).toBe(0);
  victim.close();
});
