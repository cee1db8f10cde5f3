import type { ObjectMeta } from '@semblance/common/kube/index';
import { AGENTPOOL_RESOURCE, type AgentPool } from '@semblance/crds/gen/agentpools';
import { createHarness, type Harness } from '@semblance/testkit/operator/harness';
import { poolTools, template } from '@semblance/testkit/operator/pools';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { POD_RESOURCE, POOL_LABEL } from './pod.ts';

let harness: Harness;
let tools: ReturnType<typeof poolTools>;

beforeEach(async () => {
  harness = await createHarness();
  tools = poolTools(harness);
  const account = { group: '', version: 'v1', plural: 'serviceaccounts', kind: 'ServiceAccount' };
  await harness.client.apply(account, { metadata: { name: 'default', namespace: harness.namespace } });
});
afterEach(async () => {
  await harness.close();
});

const foreign = (name: string, owner?: NonNullable<ObjectMeta['ownerReferences']>[number]) =>
  harness.client.create(POD_RESOURCE, {
    metadata: {
      name,
      namespace: harness.namespace,
      labels: { [POOL_LABEL]: 'gpu' },
      ...(owner && { ownerReferences: [owner] }),
    },
    spec: template().spec,
  });
const ownedBy = ({ metadata }: AgentPool, more: { uid?: string; controller?: boolean } = {}) => ({
  apiVersion: 'semblance.dev/v1alpha1',
  kind: 'AgentPool',
  name: 'gpu',
  uid: metadata.uid ?? '',
  controller: true,
  ...more,
});
const names = async () => {
  const { items } = await harness.client.list(POD_RESOURCE, { namespace: harness.namespace });
  return items.map(({ metadata }) => metadata.name ?? '').toSorted();
};
const has = (count: number) => (pool: AgentPool, own: unknown[]) =>
  own.length === count && pool.status?.replicas === count && pool.status.creating === undefined;

it('Pods with the label of a pool that are not its own are neither counted nor touched', async () => {
  const pool = await tools.create('gpu', { replicas: 0 });
  await foreign('by-hand');
  await foreign('of-a-former', ownedBy(pool, { uid: '00000000-0000-4000-8000-000000000000' }));
  await foreign('by-another', ownedBy(pool, { controller: false }));
  const others = await names();
  await harness.operator();
  await tools.patch('gpu', { replicas: 2 });
  await tools.until('gpu', has(2));
  expect(await names()).toHaveLength(5);
  await tools.patch('gpu', { replicas: 0 });
  await tools.until('gpu', has(0));
  expect(await names()).toEqual(others);
});

it('a Pod of which somebody takes the label is let go and replaced', async () => {
  await harness.operator();
  const pool = await tools.create('gpu', { replicas: 1 });
  await tools.until('gpu', has(1));
  const [freed] = await tools.pods(pool);
  const { name = '' } = freed?.metadata ?? {};
  const ref = { namespace: harness.namespace, name };
  await harness.client.mergePatch(POD_RESOURCE, ref, { metadata: { labels: { [POOL_LABEL]: null } } });
  await expect.poll(names, { timeout: 30_000 }).toHaveLength(2);
  await tools.patch('gpu', { replicas: 0 });
  await expect.poll(names, { timeout: 30_000 }).toEqual([name]);
});

it('a name that was claimed and has gone to somebody else is given up for another', async () => {
  const pool = await tools.create('gpu', { replicas: 1 });
  await foreign('gpu-taken');
  const status = { ...pool.status, desiredReplicas: 1, creating: ['gpu-taken'] };
  await harness.client.replace(AGENTPOOL_RESOURCE, { ...pool, status }, { subresource: 'status' });
  await harness.operator();
  await tools.until('gpu', has(1));
  const [own] = await tools.pods(pool);
  expect(await names()).toEqual([own?.metadata.name, 'gpu-taken'].toSorted());
  expect(own?.metadata.name).not.toBe('gpu-taken');
});
