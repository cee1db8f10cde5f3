import { AGENT_CLEANUP_FINALIZER, SETTLEMENT_FINALIZER } from '@semblance/common/finalizers';
import {
  type KubeObject,
  LEASE_RESOURCE,
  NAMESPACE_RESOURCE,
  type ResourceDescriptor,
} from '@semblance/common/kube/index';
import { silentLogger } from '@semblance/common/logging';
import { AGENTPOOL_RESOURCE } from '@semblance/crds/gen/agentpools';
import { GPUAGENT_RESOURCE } from '@semblance/crds/gen/gpuagents';
import { LIVESESSION_RESOURCE } from '@semblance/crds/gen/livesessions';
import { RENDERJOB_RESOURCE } from '@semblance/crds/gen/renderjobs';
import { client, kube, namespace } from '@semblance/testkit/operator/chart';
import { createHarness } from '@semblance/testkit/operator/harness';
import { describe, expect, it } from 'vitest';
import { ELECTION_LEASE } from '../app.ts';
import { POOL_LABEL } from '../pools/pod.ts';
import { endWithNamespace } from './namespace-end.ts';
import { DEPLOYMENTS, OWN_RESOURCES, PODS } from './resources.ts';
import { uninstall } from './uninstall.ts';

/** No service is alive to wait for. */
const IMPATIENT = { workMs: 300, agentsMs: 300, servicesMs: 300 };

const make = (resource: ResourceDescriptor<KubeObject>, metadata: object, spec: object) =>
  client.create(resource, { metadata: { namespace, ...metadata }, spec } as Omit<
    KubeObject,
    'apiVersion' | 'kind'
  >);
const left = async () => {
  const lists = await Promise.all(
    [...OWN_RESOURCES, PODS, LEASE_RESOURCE].map((each) => client.list(each, { namespace })),
  );
  return lists.flatMap(({ items }) => items.map(({ metadata }) => metadata.name));
};
const labels = (component: string) => ({
  'app.kubernetes.io/instance': 'rel',
  'app.kubernetes.io/component': component,
});
const podSpec = { containers: [{ name: 'one', image: 'example.com/one:1' }] };
const JOB = {
  capability: 'face-swap-image',
  inputs: [
    { name: 'image', key: 'api/test/base.jpg' },
    { name: 'face', key: 'api/test/face.jpg' },
  ],
};

/** Creates what a release leaves in its namespace when all its services are dead. */
async function abandonedRelease(): Promise<void> {
  await make(
    RENDERJOB_RESOURCE,
    { name: 'unsettled', finalizers: [SETTLEMENT_FINALIZER, AGENT_CLEANUP_FINALIZER] },
    JOB,
  );
  await make(RENDERJOB_RESOURCE, { name: 'by-hand' }, JOB);
  await make(
    AGENTPOOL_RESOURCE,
    { name: 'agents', finalizers: ['semblance.dev/agents'] },
    { template: { spec: podSpec } },
  );
  await make(GPUAGENT_RESOURCE, { name: 'agents-abcde' }, {});
  await make(LEASE_RESOURCE, { name: 'agents-abcde' }, {});
  await make(LEASE_RESOURCE, { name: ELECTION_LEASE }, {});
  await make(
    LIVESESSION_RESOURCE,
    { name: 'session' },
    { capability: 'voice', agent: 'agents-abcde', incarnation: 'one', maxDurationSeconds: 60 },
  );
  for (const component of ['gateway', 'control-plane', 'operator']) {
    const selector = { matchLabels: labels(component) };
    const template = { metadata: { labels: labels(component) }, spec: podSpec };
    await make(DEPLOYMENTS, { name: `rel-${component}` }, { replicas: 2, selector, template });
  }
}

const remove = () =>
  uninstall({
    client,
    namespace,
    fullname: 'rel',
    release: 'rel',
    logger: silentLogger(),
    patience: IMPATIENT,
  });

describe('uninstall', () => {
  it('clears a namespace whose services are all dead, and may be repeated', async () => {
    await abandonedRelease();
    // This Lease belongs to somebody else and stays untouched.
    await make(LEASE_RESOURCE, { name: 'other' }, {});
    expect(await remove()).toBe(2);
    expect(await left()).toEqual(['other']);
    for (const { spec } of (await client.list(DEPLOYMENTS, { namespace })).items as (KubeObject & {
      spec: { replicas: number };
    })[])
      expect(spec.replicas).toBe(0);
    await remove();
    expect(await left()).toEqual(['other']);
  });

  it('lets the services do their part, as long as they do it', async () => {
    const harness = await createHarness(kube);
    try {
      await harness.agent({ name: 'one', script: () => {} });
      await harness.operator();
      await harness.job('running');
      await harness.until('running', ({ status }) => status?.phase === 'Running');
      const patience = { ...IMPATIENT, workMs: 30_000 };
      // The operator ended the attempt and released the job, so nothing was left to release here.
      expect(
        await uninstall({
          client,
          namespace,
          fullname: 'rel',
          release: 'rel',
          logger: silentLogger(),
          patience,
        }),
      ).toBe(0);
      expect((await client.list(RENDERJOB_RESOURCE, { namespace })).items).toEqual([]);
    } finally {
      await harness.close();
    }
  });

  it('ends where there is nothing', async () => {
    await remove();
    expect(await left()).toEqual([]);
  });
});

describe('an operator that ends', () => {
  it('touches nothing while its namespace stays', async () => {
    await abandonedRelease();
    expect(await endWithNamespace({ client, namespace, logger: silentLogger() })).toBe(false);
    const job = await client.get(RENDERJOB_RESOURCE, { namespace, name: 'unsettled' });
    expect(job.metadata.finalizers).toHaveLength(2);
  });

  it('holds nothing back when its namespace goes', async () => {
    await abandonedRelease();
    const account = { group: '', version: 'v1', plural: 'serviceaccounts', kind: 'ServiceAccount' };
    await make(account, { name: 'default' }, {});
    // Pods stay in the API like this while their nodes end the containers.
    const spec = {
      ...podSpec,
      nodeName: 'node',
      terminationGracePeriodSeconds: 320,
      automountServiceAccountToken: false,
    };
    const product = { 'app.kubernetes.io/part-of': 'semblance' };
    const pods = {
      agent: { [POOL_LABEL]: 'agents' },
      gateway: { ...product, ...labels('gateway') },
      postgres: { ...product, ...labels('postgres') },
      stranger: labels('gateway'),
    };
    for (const [name, labels] of Object.entries(pods)) {
      await make(PODS, { name, labels }, spec);
      await client.delete(PODS, { namespace, name });
    }
    await client.delete(NAMESPACE_RESOURCE, { name: namespace });
    expect(await endWithNamespace({ client, namespace, logger: silentLogger() })).toBe(true);
    for (const resource of OWN_RESOURCES)
      for (const { metadata } of (await client.list(resource, { namespace })).items)
        expect(metadata.finalizers ?? [], metadata.name).toEqual([]);
    const { items } = await client.list(PODS, { namespace });
    expect(items.map(({ metadata }) => metadata.name).toSorted()).toEqual(['postgres', 'stranger']);
  });
});
