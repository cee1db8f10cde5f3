import { afterAll, beforeAll, expect, test } from 'vitest';
import { eventually } from '../../support/eventually.ts';
import { asked, carrierOf, expectCharged, setRate, streaming, untilHeard } from './live.ts';
import {
  agentOf,
  CHARTS_POOL,
  conditionOfPool,
  makePool,
  podsOfPool,
  poolOf,
  stands,
  untilPool,
} from './pools.ts';
import { kubectl, untilReady, withApi } from './release.ts';

const IDLE_S = 4;
/** One voice an agent, so that the number of sessions is that of agents. */
const ONE_VOICE = { SEMBLANCE_LIVE_VOICE_SLOTS: '1', SEMBLANCE_LIVE_VIDEO_SLOTS: '0' };
const stop = new AbortController();

beforeAll(async () => {
  await setRate();
  await kubectl(['scale', 'agentpool', CHARTS_POOL, '--replicas=0']);
  await untilPool(CHARTS_POOL, 'nobody is left', stands(0));
});

afterAll(async () => {
  stop.abort();
  await kubectl(['delete', 'agentpool', 'demand', 'fixed', '--ignore-not-found', '--wait=false']);
  await kubectl(['scale', 'agentpool', CHARTS_POOL, '--replicas=1']);
  await untilReady();
});

test('a pool starts from nothing for a session that found no slot, keeps its buffer, and goes when idle', async () => {
  const pool = 'demand';
  const autoscaling = { minReplicas: 0, maxReplicas: 2, bufferSlots: 0, idleSeconds: IDLE_S };
  await makePool(pool, { capabilities: ['voice'], autoscaling }, ONE_VOICE);
  await untilPool(pool, 'it has none', (now) => conditionOfPool(now, 'Ready').reason === 'ScaledToZero');
  await withApi(async (api) => {
    const askedAt = performance.now();
    expect(await asked(api)).toBe('capacity_warming');
    const client = await streaming(api, stop.signal);
    console.log(`heard ${Math.round(performance.now() - askedAt)} ms after the first session was asked for`);
    const busy = await carrierOf(client);

    const buffered = (bufferSlots: number) =>
      kubectl.patch('agentpool', pool, { spec: { autoscaling: { bufferSlots } } });
    const spare = async () => {
      await untilPool(pool, 'it has one to spare', stands(2));
      const [other] = (await podsOfPool(pool)).filter(
        ({ metadata }) => metadata.name !== busy && !metadata.deletionTimestamp,
      );
      return other?.metadata.name ?? '';
    };
    await buffered(1);
    const first = await spare();
    await kubectl(['delete', 'pod', first, '--wait=false']);
    await untilPool(pool, 'it replaces it', (now) => !stands(2)(now));
    const second = await spare();
    expect(second).not.toBe(first);

    // It was longer on its way than it may be idle.
    const readyAt = performance.now();
    await buffered(0);
    await untilPool(pool, 'the one without work is gone', stands(1));
    expect(performance.now() - readyAt).toBeGreaterThan(IDLE_S * 1_000 - 1_000);
    expect((await podsOfPool(pool)).map(({ metadata }) => metadata.name)).toContain(busy);

    const before = client.received.length;
    await eventually('sound to come on', () => client.received.length > before + 20 || undefined);
    client.close();
    await client.closed;
    await expectCharged(api, client, { status: 'succeeded', reason: null });
    await untilPool(pool, 'nobody is left', stands(0));
  });
});

test('a changed template, and kubectl scale to none, let a session finish; others go to the next agent', async () => {
  const pool = 'fixed';
  await makePool(pool, { replicas: 1 }, ONE_VOICE);
  await untilPool(pool, 'its agent is ready', stands(1));
  await withApi(async (api) => {
    const client = await streaming(api, stop.signal);
    const old = await carrierOf(client);
    const template = { metadata: { annotations: { 'example.com/changed': 'yes' } } };
    await kubectl.patch('agentpool', pool, { spec: { template } });
    const rolling = await untilPool(
      pool,
      'the new agent is ready and the old one drains',
      ({ status }) => status?.updatedReplicas === 1 && status.drainingReplicas === 1,
    );
    expect(conditionOfPool(rolling, 'Progressing')).toMatchObject({
      status: 'True',
      reason: 'RollingUpdate',
    });
    expect((await agentOf(old)).spec.drain).toBe(true);
    const next = await streaming(api, stop.signal);
    expect(await carrierOf(next)).not.toBe(old);

    await kubectl(['scale', 'agentpool', pool, '--replicas=0']);
    const leaving = await untilPool(
      pool,
      'both drain',
      ({ status }) => status?.desiredReplicas === 0 && status.drainingReplicas === 2,
    );
    expect(leaving.status?.busyReplicas).toBe(2);
    expect(conditionOfPool(leaving, 'Ready').reason).toBe('ScaledToZero');
    await untilHeard(client, client.heardMs + 1_000);
    await untilHeard(next, next.heardMs + 1_000);
    for (const each of [client, next]) {
      expect(each.notices).toEqual([]);
      each.close();
      await each.closed;
      await expectCharged(api, each, { status: 'succeeded', reason: null });
    }
    await untilPool(pool, 'nobody is left', stands(0));
  });
});

test('a HorizontalPodAutoscaler scales a pool through its scale subresource', async () => {
  const pool = 'fixed';
  await kubectl(['scale', 'agentpool', pool, '--replicas=1']);
  await kubectl.apply({
    apiVersion: 'autoscaling/v2',
    kind: 'HorizontalPodAutoscaler',
    metadata: { name: pool },
    spec: {
      scaleTargetRef: { apiVersion: 'semblance.dev/v1alpha1', kind: 'AgentPool', name: pool },
      minReplicas: 2,
      maxReplicas: 3,
      metrics: [
        {
          type: 'Resource',
          resource: { name: 'cpu', target: { type: 'Utilization', averageUtilization: 60 } },
        },
      ],
    },
  });
  const scaled = await untilPool(pool, 'it has what the autoscaler asks for', stands(2));
  expect(scaled.spec.replicas).toBe(2);
  const able = ['-o', 'jsonpath={.status.conditions[?(@.type=="AbleToScale")].status}'];
  expect(await kubectl(['get', 'hpa', pool, ...able])).toBe('True');
  await kubectl(['delete', 'hpa', pool]);
  await kubectl(['scale', 'agentpool', pool, '--replicas=0']);
});

test('a pool that cannot start agents says why', async () => {
  await makePool('image', { replicas: 1 }, {}, ({ spec: { containers } }) => {
    for (const each of containers) each.image = 'localhost/no-such-image:1';
  });
  await makePool('huge', { replicas: 1, warmUpSeconds: 10 }, {}, ({ spec: { containers } }) => {
    for (const each of containers) each.resources.requests = { cpu: '1000' };
  });
  const said = async (pool: string, reason: RegExp, message: RegExp) => {
    const now = await untilPool(pool, `Ready says ${reason}`, (each) =>
      reason.test(conditionOfPool(each, 'Ready').reason),
    );
    const condition = conditionOfPool(now, 'Ready');
    expect(condition).toMatchObject({ status: 'False', message: expect.stringMatching(message) });
    console.log(`${condition.reason}: ${condition.message}`);
  };
  await said('image', /^(ErrImagePull|ImagePullBackOff)$/, /no-such-image/);
  await said('huge', /^Unschedulable$/, /Insufficient cpu/);
  const { spec } = await poolOf('image');
  await expect(
    kubectl.apply({
      ...{ apiVersion: 'semblance.dev/v1alpha1', kind: 'AgentPool', metadata: { name: 'turned' } },
      spec: { autoscaling: { minReplicas: 3, maxReplicas: 2 }, template: spec.template },
    }),
  ).rejects.toThrow(/minReplicas is at most maxReplicas/);
  await kubectl(['delete', 'agentpool', 'image', 'huge', '--timeout=30s']);
});
