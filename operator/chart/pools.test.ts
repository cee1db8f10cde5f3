import { createKubeClient } from '@semblance/common/kube/index';
import { silentLogger } from '@semblance/common/logging';
import { AGENTPOOL_RESOURCE, type AgentPool } from '@semblance/crds/gen/agentpools';
import { client, kube, namespace } from '@semblance/testkit/operator/chart';
import { describe, expect, it } from 'vitest';
import { applyPools } from './pools.ts';

const LABELS = { 'app.kubernetes.io/managed-by': 'Helm', 'app.kubernetes.io/instance': 'rel' };

function pool(name: string, spec: Partial<AgentPool['spec']>, image = 'example.com/agent:1'): AgentPool {
  const template = { spec: { containers: [{ name: 'agent', image }] } };
  return {
    apiVersion: 'semblance.dev/v1alpha1',
    kind: 'AgentPool',
    metadata: { name, labels: LABELS },
    spec: { template, ...spec },
  };
}
const apply = (...wanted: AgentPool[]) =>
  applyPools({
    client,
    namespace,
    release: 'rel',
    wanted,
    logger: silentLogger(),
    signal: AbortSignal.timeout(30_000),
  });
const get = (name: string) => client.get(AGENTPOOL_RESOURCE, { namespace, name });
const scale = (name: string, replicas: number) => {
  const kubectl = createKubeClient({ kubeconfigPath: kube.kubeconfigPath, fieldManager: 'kubectl' });
  return kubectl
    .mergePatch(AGENTPOOL_RESOURCE, { namespace, name }, { spec: { replicas } })
    .finally(() => kubectl.close());
};

describe('pools of a release', () => {
  it('are made, brought up to the values, and removed when the values name them no more', async () => {
    await apply(pool('a', { replicas: 1 }), pool('b', { replicas: 2 }));
    expect((await get('a')).spec.replicas).toBe(1);
    await apply(pool('b', { replicas: 3 }, 'example.com/agent:2'));
    const { items } = await client.list(AGENTPOOL_RESOURCE, { namespace });
    expect(items.map(({ metadata }) => metadata.name)).toEqual(['b']);
    expect(items[0]?.spec).toMatchObject({
      replicas: 3,
      template: { spec: { containers: [{ image: 'example.com/agent:2' }] } },
    });
  });

  it('that others made are left alone', async () => {
    const { metadata, spec } = pool('own', { replicas: 1 });
    await client.create(AGENTPOOL_RESOURCE, { metadata: { ...metadata, namespace, labels: {} }, spec });
    await apply();
    expect((await get('own')).metadata.name).toBe('own');
  });

  it('stay as they were scaled by hand, until the values change the number', async () => {
    await apply(pool('a', { replicas: 1 }));
    await scale('a', 5);
    await apply(pool('a', { replicas: 1 }, 'example.com/agent:2'));
    expect((await get('a')).spec).toMatchObject({
      replicas: 5,
      template: { spec: { containers: [{ image: 'example.com/agent:2' }] } },
    });
    await apply(pool('a', { replicas: 2 }));
    expect((await get('a')).spec.replicas).toBe(2);
  });

  it('whose number is left to others keep it', async () => {
    await apply(pool('a', {}));
    expect((await get('a')).spec.replicas).toBeUndefined();
    await scale('a', 4);
    await apply(pool('a', {}));
    expect((await get('a')).spec.replicas).toBe(4);
  });

  it('go over to the operator and back', async () => {
    await apply(pool('a', { replicas: 3 }));
    await apply(pool('a', { autoscaling: { minReplicas: 1, maxReplicas: 4 } }));
    expect((await get('a')).spec).toMatchObject({ autoscaling: { maxReplicas: 4 } });
    expect((await get('a')).spec.replicas).toBeUndefined();
    await apply(pool('a', { replicas: 2 }));
    expect((await get('a')).spec.autoscaling).toBeUndefined();
    expect((await get('a')).spec.replicas).toBe(2);
  });

  it('go over to the operator and back, also when they were scaled by hand before', async () => {
    await apply(pool('a', { replicas: 1 }));
    await scale('a', 4);
    await apply(pool('a', { autoscaling: { minReplicas: 1, maxReplicas: 4 } }));
    expect((await get('a')).spec.replicas).toBeUndefined();
    await apply(pool('a', { autoscaling: { minReplicas: 1, maxReplicas: 6 } }));
    expect((await get('a')).spec.autoscaling).toMatchObject({ maxReplicas: 6 });
    await apply(pool('a', { replicas: 2 }));
    expect((await get('a')).spec.autoscaling).toBeUndefined();
    expect((await get('a')).spec.replicas).toBe(2);
  });

  it('that the API refuses are told of', async () => {
    await expect(apply(pool('a', { replicas: -1 }))).rejects.toThrow(/replicas/);
  });
});
