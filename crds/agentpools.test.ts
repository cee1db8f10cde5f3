import { type ResourceRig, startResourceRig } from '@semblance/testkit/crds/crds';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { AGENTPOOL_RESOURCE, type AgentPoolStatus } from './gen/agentpools.ts';

let rig: ResourceRig;

beforeAll(async () => {
  rig = await startResourceRig();
});

afterAll(() => rig?.close());

const kubectl = (...args: string[]) => rig.kubectl(...args);

const template = { spec: { containers: [{ name: 'agent', image: 'agent:1' }] } };
const autoscaling = { minReplicas: 0, maxReplicas: 4 };

const create = (spec: unknown, name?: string) => rig.create(AGENTPOOL_RESOURCE, spec, name);

const setStatus = (name: string, status: AgentPoolStatus) =>
  rig.client.mergePatch(
    AGENTPOOL_RESOURCE,
    { namespace: rig.namespace, name },
    { status },
    { subresource: 'status' },
  );

describe('an AgentPool', () => {
  it('is filled in with defaults, and keeps everything of its template', async () => {
    const full = {
      metadata: { labels: { a: 'b' }, annotations: { 'example.com/x': 'y' } },
      spec: {
        containers: [{ name: 'agent', image: 'agent:1', resources: { limits: { 'nvidia.com/gpu': '1' } } }],
        tolerations: [{ operator: 'Exists' }],
      },
    };
    expect((await create({ replicas: 2, template: full })).spec).toEqual({
      replicas: 2,
      template: full,
      strategy: { maxSurge: 1, maxUnavailable: 0 },
      warmUpSeconds: 600,
      drainSeconds: 3600,
    });
    const scaled = await create({ template, autoscaling: { maxReplicas: 3 }, capabilities: ['voice'] });
    expect(scaled.spec).toMatchObject({
      autoscaling: { minReplicas: 0, maxReplicas: 3, bufferSlots: 0, idleSeconds: 300 },
    });
  });

  const bad: [string, unknown, RegExp][] = [
    ['no template', { replicas: 1 }, /spec\.template: Required value/],
    ['a template without containers', { template: { spec: { containers: [] } } }, /at least 1 items/],
    [
      'a container without an image',
      { template: { spec: { containers: [{ name: 'a' }] } } },
      /image: Required/,
    ],
    [
      'replicas and autoscaling',
      { template, replicas: 1, autoscaling: { ...autoscaling, minReplicas: 1 } },
      /replicas and autoscaling exclude each other; remove one of them/,
    ],
    ['a start from nothing for nothing', { template, autoscaling }, /needs capabilities, else nothing says/],
    [
      'an empty list of capabilities to start for',
      { template, autoscaling, capabilities: [] },
      /needs capabilities/,
    ],
    [
      'a minimum above the maximum',
      { template, autoscaling: { minReplicas: 5, maxReplicas: 4 } },
      /minReplicas is at most maxReplicas/,
    ],
    ['an unknown capability', { template, capabilities: ['dance'] }, /Unsupported value: "dance"/],
    ['a capability twice', { template, capabilities: ['voice', 'voice'] }, /Duplicate value/],
    ['too many replicas', { template, replicas: 1001 }, /less than or equal to 1000/],
    [
      'a strategy that replaces nothing',
      { template, strategy: { maxSurge: 0 } },
      /maxSurge and maxUnavailable cannot both be 0/,
    ],
    ['no time to warm up', { template, warmUpSeconds: 0 }, /greater than or equal to 10/],
  ];
  it.each(bad)('is refused with %s', async (_, spec, message) => {
    await expect(create(spec)).rejects.toMatchObject({
      code: 'invalid',
      message: expect.stringMatching(message),
    });
  });

  it('is refused under a name that leaves no room for those of its Pods', async () => {
    await expect(create({ template }, 'x'.repeat(58))).rejects.toThrow('the name has at most 57 characters');
  });

  it('is scaled with kubectl, and shown', async () => {
    await create({ template, replicas: 1 }, 'gpu');
    await setStatus('gpu', {
      desiredReplicas: 3,
      replicas: 2,
      readyReplicas: 1,
      busyReplicas: 1,
      slots: 4,
      slotsUsed: 2,
      selector: 'semblance.dev/pool=gpu',
      conditions: [
        {
          type: 'Ready',
          status: 'False',
          reason: 'AgentsStarting',
          message: '1 of 3 agents is ready.',
          lastTransitionTime: new Date().toISOString(),
        },
      ],
    });
    await kubectl('scale', 'agentpool', 'gpu', '--replicas=3');
    expect(
      (await rig.client.get(AGENTPOOL_RESOURCE, { namespace: rig.namespace, name: 'gpu' })).spec.replicas,
    ).toBe(3);
    expect(JSON.parse(await kubectl('get', 'ap', 'gpu', '--subresource=scale', '-o', 'json'))).toMatchObject({
      spec: { replicas: 3 },
      status: { replicas: 2, selector: 'semblance.dev/pool=gpu' },
    });
    const table = await kubectl('get', 'ap', 'gpu');
    expect(table).toMatch(/^NAME +DESIRED +REPLICAS +READY +BUSY +SLOTS +USED +REASON +AGE\n/);
    expect(table).toMatch(/gpu +3 +2 +1 +1 +4 +2 +AgentsStarting +\d+s\n/);
    expect(await kubectl('get', 'semblance')).toContain('agentpool.semblance.dev/gpu');
  });

  it('that scales itself is not scaled by others', async () => {
    await create({ template, autoscaling, capabilities: ['voice'] }, 'own');
    await expect(kubectl('scale', 'agentpool', 'own', '--replicas=3')).rejects.toThrow(
      'replicas and autoscaling exclude each other',
    );
  });
});
