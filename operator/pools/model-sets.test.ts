import { poolOf } from '@semblance/testkit/operator/pool-snapshots';
import { describe, expect, it } from 'vitest';
import { podOf, revisionOf } from './template.ts';

const container = (more: object = {}) => ({ name: 'agent', image: 'agent:1', ...more });
const poolWith = (modelSets: string[], spec: object = { containers: [container()] }) =>
  poolOf({ modelSets, template: { spec } as never });
interface Built {
  readonly initContainers?: readonly Record<string, unknown>[];
  readonly containers: readonly Record<string, unknown>[];
  readonly volumes?: readonly object[];
}
const built = (...given: Parameters<typeof poolWith>) =>
  podOf(poolWith(...given), 'gpu-a').spec as unknown as Built;

describe('the Pod of a pool with model sets', () => {
  it('fetches them one after the other, and mounts them read-only', () => {
    const { initContainers = [], containers, volumes } = built(['faces', 'voices']);
    expect(initContainers).toMatchObject([
      {
        name: 'models-1',
        image: 'agent:1',
        command: ['node', 'packages/engine-onnx/models/main.ts', 'fetch', '--dir', '/models'],
        args: ['/etc/semblance/model-sets/1/models.yaml'],
        terminationMessagePolicy: 'FallbackToLogsOnError',
      },
      {
        name: 'models-2',
        args: ['/etc/semblance/model-sets/1/models.yaml', '/etc/semblance/model-sets/2/models.yaml'],
        volumeMounts: [
          { name: 'models', mountPath: '/models' },
          { name: 'model-set-1', mountPath: '/etc/semblance/model-sets/1', readOnly: true },
          { name: 'model-set-2', mountPath: '/etc/semblance/model-sets/2', readOnly: true },
        ],
      },
    ]);
    expect(volumes).toEqual([
      { name: 'models', emptyDir: {} },
      { name: 'model-set-1', configMap: { name: 'faces' } },
      { name: 'model-set-2', configMap: { name: 'voices' } },
    ]);
    expect(containers[0]).toMatchObject({
      env: expect.arrayContaining([{ name: 'SEMBLANCE_MODEL_DIR', value: '/models' }]),
      volumeMounts: [{ name: 'models', mountPath: '/models', readOnly: true }],
    });
  });

  it("uses the template's volume, place, security and proxy, and keeps its init containers", () => {
    const claim = { name: 'models', persistentVolumeClaim: { claimName: 'weights' } };
    const ca = { name: 'ca', mountPath: '/ca' };
    const agent = container({
      securityContext: { runAsNonRoot: true },
      env: [
        { name: 'HTTPS_PROXY', value: 'http://proxy' },
        { name: 'SEMBLANCE_MODEL_DIR', value: '/weights/a' },
        { name: 'SECRET', value: 'mine' },
      ],
      volumeMounts: [ca, { name: 'models', mountPath: '/weights', readOnly: true }],
    });
    const spec = { containers: [agent], initContainers: [{ name: 'first' }], volumes: [claim] };
    const { initContainers = [], containers, volumes } = built(['faces'], spec);
    expect(initContainers.map(({ name }) => name)).toEqual(['first', 'models-1']);
    expect(initContainers[1]).toMatchObject({
      command: expect.arrayContaining(['--dir', '/weights/a']),
      securityContext: { runAsNonRoot: true },
      env: [{ name: 'HTTPS_PROXY', value: 'http://proxy' }],
      volumeMounts: [ca, { name: 'models', mountPath: '/weights' }, { name: 'model-set-1' }],
    });
    expect(volumes).toEqual([claim, { name: 'model-set-1', configMap: { name: 'faces' } }]);
    expect(containers[0]?.env).toContainEqual({ name: 'SEMBLANCE_MODEL_DIR', value: '/weights/a' });
  });

  it('is another revision when the sets change; without any it is what it was', () => {
    const without = poolOf();
    expect(revisionOf(poolWith([]))).toBe(revisionOf(without));
    expect(podOf(poolWith([]), 'a').spec).toEqual(podOf(without, 'a').spec);
    const revisions = [[], ['faces'], ['voices'], ['faces', 'voices']].map((sets) =>
      revisionOf(poolWith(sets)),
    );
    expect(new Set(revisions).size).toBe(4);
  });
});
