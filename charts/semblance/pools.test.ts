import { type Manifest, poolsOf, render } from '@semblance/testkit/chart/chart';
import { beforeAll, describe, expect, it } from 'vitest';

let gpu: Manifest[];

beforeAll(async () => {
  gpu = await render('gpu');
});

describe('pools', () => {
  const pool = (name: string) => poolsOf(gpu).find(({ metadata }) => metadata.name === name) as Manifest;

  it('are those that are not left out, each by its own values', () => {
    expect(poolsOf(gpu).map(({ metadata }) => metadata.name)).toEqual(['agents', 'live', 'models', 'python']);
    expect(pool('live').spec.replicas).toBeUndefined();
    expect(pool('live').spec.autoscaling).toEqual({
      minReplicas: 0,
      maxReplicas: 8,
      bufferSlots: 2,
      idleSeconds: 300,
    });
    expect(pool('models').spec).not.toHaveProperty('replicas');
    expect(pool('models').spec).not.toHaveProperty('autoscaling');
    expect(pool('agents').spec.replicas).toBe(2);
  });

  it('are given GPUs as a resource', () => {
    const { spec } = pool('models').spec.template;
    const gpus = { 'nvidia.com/mig-1g.10gb': '1' };
    expect(spec.containers[0].resources).toMatchObject({ limits: gpus, requests: gpus });
    expect(spec).toMatchObject({
      runtimeClassName: 'nvidia',
      nodeSelector: { 'example.com/gpu': 'true' },
      tolerations: [{ key: 'nvidia.com/gpu' }],
      priorityClassName: 'batch',
      terminationGracePeriodSeconds: 620,
    });
  });

  it('are given GPUs as claims, and sidecars', () => {
    const { spec } = pool('python').spec.template;
    expect(spec.resourceClaims).toEqual([{ name: 'gpu', resourceClaimTemplateName: 'one-gpu' }]);
    expect(spec.containers[0].resources.claims).toEqual([{ name: 'gpu' }]);
    expect(spec.containers.map(({ name }: { name: string }) => name)).toEqual(['agent', 'engine']);
  });

  it('see sidecars of live sessions in memory, where there are any', () => {
    const { containers, volumes } = pool('python').spec.template.spec as Manifest;
    expect(containers[0].volumeMounts).toContainEqual({ name: 'live', mountPath: '/run/semblance-live' });
    expect(volumes).toContainEqual({ name: 'live', emptyDir: { medium: 'Memory' } });
    const others = pool('live').spec.template.spec.volumes as { name: string }[];
    expect(others.map(({ name }) => name)).not.toContain('live');
  });
});
