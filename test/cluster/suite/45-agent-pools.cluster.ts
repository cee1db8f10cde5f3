import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '@semblance/testkit/stack/eventually';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  ASK_AGAIN_MS,
  asked,
  carrierOf,
  expectCharged,
  heardMs,
  setRate,
  streaming,
  untilHeard,
} from './live.ts';
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
import { agents, kubectl, untilReady, withApi } from './release.ts';

const IDLE_S = 4;
/** Time that a drain gives live sessions, in seconds, instead of half a minute. */
const LIVE_DRAIN_S = 3;
const stop = new AbortController();

beforeAll(async () => {
  await setRate();
  await kubectl(['scale', 'agentpool', CHARTS_POOL, '--replicas=0']);
  await untilPool(CHARTS_POOL, 'nobody is left', stands(0));
});

afterAll(async () => {
  stop.abort();
  const made = ['demand', 'image', 'huge', 'hand', 'need'];
  await kubectl(['delete', 'agentpool', ...made, '--ignore-not-found', '--timeout=50s']);
  await kubectl(['scale', 'agentpool', CHARTS_POOL, '--replicas=1']);
  await untilReady();
});

test('a pool from nothing to two agents and back, by what its sessions need', async () => {
  const pool = 'demand';
  const names = async () =>
    (await podsOfPool(pool))
      .filter(({ metadata }) => !metadata.deletionTimestamp)
      .map(({ metadata }) => metadata.name);
  const autoscaling = { minReplicas: 0, maxReplicas: 2, bufferSlots: 0, idleSeconds: IDLE_S };
  await makePool(
    pool,
    { capabilities: ['voice'], autoscaling },
    { SEMBLANCE_LIVE_VOICE_SLOTS: '1', SEMBLANCE_LIVE_VIDEO_SLOTS: '0' },
  );
  await untilPool(pool, 'it has none', (now) => conditionOfPool(now, 'Ready').reason === 'ScaledToZero');
  await withApi(async (api) => {
    // The pool scales up from zero agents.
    const askedAt = performance.now();
    expect(await asked(api)).toBe('capacity_warming');
    await delay(ASK_AGAIN_MS);
    const client = await streaming(api, stop.signal);
    console.log(`heard ${Math.round(performance.now() - askedAt)} ms after a session was first asked for`);
    const busy = await carrierOf(client);
    expect(await names()).toEqual([busy]);

    // The pool keeps a spare agent as a buffer, and replaces it when it is deleted by hand.
    const buffered = (bufferSlots: number) =>
      kubectl.patch('agentpool', pool, { spec: { autoscaling: { bufferSlots } } });
    const other = () =>
      eventually('another agent', async () => (await names()).find((name) => name !== busy));
    await buffered(1);
    const first = await other();
    await kubectl(['delete', 'pod', first, '--grace-period=0', '--force']);
    const second = await eventually('one in its place', async () =>
      (await names()).find((name) => name !== busy && name !== first),
    );
    await untilPool(pool, 'it has one to spare', stands(2));

    // Without a buffer the spare agent goes, because its start took longer than an agent may be idle.
    const readyAt = performance.now();
    await buffered(0);
    await untilPool(pool, 'the one without work is gone', stands(1));
    const idle = performance.now() - readyAt;
    console.log(`gone ${Math.round(idle)} ms after it was ready`);
    expect(idle).toBeGreaterThan(IDLE_S * 1_000 - 1_000);
    expect(await names()).toEqual([busy]);
    expect(second).not.toBe(first);

    // A changed template replaces the agents.
    const template = { metadata: { annotations: { 'example.com/changed': 'yes' } } };
    await kubectl.patch('agentpool', pool, { spec: { template } });
    const rolling = await untilPool(
      pool,
      'the new agent is there and the old one drains',
      ({ status }) => status?.updatedReplicas === 1 && status.drainingReplicas === 1,
    );
    const progress = { status: 'True', reason: 'RollingUpdate' };
    expect(conditionOfPool(rolling, 'Progressing')).toMatchObject(progress);
    expect((await agentOf(busy)).spec.drain).toBe(true);
    const next = await streaming(api, stop.signal);
    expect(await carrierOf(next)).not.toBe(busy);

    // From here the pool is scaled by hand, to zero while both agents carry sessions.
    await kubectl.patch('agentpool', pool, { spec: { autoscaling: null, replicas: 1 } });
    await kubectl(['scale', 'agentpool', pool, '--replicas=0']);
    const leaving = await untilPool(
      pool,
      'both drain',
      ({ status }) => status?.desiredReplicas === 0 && status.drainingReplicas === 2,
    );
    expect(leaving.status?.busyReplicas).toBe(2);
    expect(conditionOfPool(leaving, 'Ready').reason).toBe('ScaledToZero');
    for (const each of [client, next]) {
      await untilHeard(each, heardMs(each) + 1_000);
      expect(each.notices).toEqual([]);
      each.close();
      await each.closed;
      await expectCharged(api, each, { status: 'succeeded', reason: null });
    }
    await untilPool(pool, 'nobody is left', stands(0));
  });
  // The test waits for three agents, one after the other.
}, 900_000);

test('two pools of one capability; one of them is deleted under a live session', async () => {
  const env = {
    SEMBLANCE_LIVE_VOICE_SLOTS: '1',
    SEMBLANCE_LIVE_VIDEO_SLOTS: '0',
    SEMBLANCE_AGENT_LIVE_DRAIN_SECONDS: String(LIVE_DRAIN_S),
  };
  const autoscaling = { minReplicas: 1, maxReplicas: 2, bufferSlots: 0, idleSeconds: 600 };
  await makePool('hand', { capabilities: ['voice'], replicas: 1 }, env);
  await makePool('need', { capabilities: ['voice'], autoscaling }, env);
  for (const pool of ['hand', 'need']) await untilPool(pool, 'its agent is ready', stands(1));
  await withApi(async (api) => {
    const clients = [await streaming(api, stop.signal), await streaming(api, stop.signal)];
    const carriers = await Promise.all(clients.map(carrierOf));
    const on = (pool: string) => {
      const client = clients[carriers.findIndex((name) => name.startsWith(`${pool}-`))];
      if (!client) throw new Error(`no session is with an agent of ${pool}: ${carriers}`);
      return client;
    };
    const [told, other] = [on('hand'), on('need')];

    // Only the pool that scales itself may start an agent for a third session.
    expect(await asked(api)).toBe('capacity_warming');
    await untilPool('need', 'it starts another', ({ status }) => status?.desiredReplicas === 2);
    expect((await poolOf('hand')).status).toMatchObject({ desiredReplicas: 1, replicas: 1, busyReplicas: 1 });
    // A pool that scales itself cannot be scaled by hand.
    await expect(kubectl(['scale', 'agentpool', 'need', '--replicas=1'])).rejects.toThrow(
      /replicas and autoscaling exclude each other/,
    );

    const deletedAt = performance.now();
    await kubectl(['delete', 'agentpool', 'hand', '--timeout=20s']);
    const { code, reason } = await told.closed;
    console.log(`closed ${Math.round(performance.now() - deletedAt)} ms after its pool was deleted`);
    expect([code, reason]).toEqual([1001, expect.stringContaining('going_away')]);
    expect(told.notices).toEqual([{ type: 'ending', reason: 'agent_draining', in_seconds: LIVE_DRAIN_S }]);
    expect(told.lastAt - deletedAt).toBeGreaterThan(LIVE_DRAIN_S * 1_000 - 500);
    await expectCharged(api, told, { status: 'succeeded', reason: 'cancelled' });
    await eventually('its Pod and its GpuAgent to be gone', async () => {
      const left = [...(await podsOfPool('hand')), ...(await agents())].map(({ metadata }) => metadata.name);
      return !left.some((name) => name.startsWith('hand-')) || undefined;
    });

    await untilHeard(other, heardMs(other) + 1_000);
    expect(other.notices).toEqual([]);
    other.close();
    await other.closed;
    await expectCharged(api, other, { status: 'succeeded', reason: null });
  });
});

test('a pool that cannot start agents says why; a HorizontalPodAutoscaler scales it all the same', async () => {
  await makePool('image', { replicas: 1 }, {}, ({ spec: { containers } }) => {
    for (const each of containers) each.image = 'localhost/no-such-image:1';
  });
  await kubectl.apply({
    apiVersion: 'autoscaling/v2',
    kind: 'HorizontalPodAutoscaler',
    metadata: { name: 'image' },
    spec: {
      scaleTargetRef: { apiVersion: 'semblance.dev/v1alpha1', kind: 'AgentPool', name: 'image' },
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
  await makePool('huge', { replicas: 1 }, {}, ({ spec: { containers } }) => {
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
      apiVersion: 'semblance.dev/v1alpha1',
      kind: 'AgentPool',
      metadata: { name: 'turned' },
      spec: { autoscaling: { minReplicas: 3, maxReplicas: 2 }, template: spec.template },
    }),
  ).rejects.toThrow(/minReplicas is at most maxReplicas/);

  const scaled = await untilPool('image', 'it has what the autoscaler asks for', ({ status }) => {
    return status?.desiredReplicas === 2 && status.replicas === 2;
  });
  expect(scaled.spec.replicas).toBe(2);
  const able = ['-o', 'jsonpath={.status.conditions[?(@.type=="AbleToScale")].status}'];
  expect(await kubectl(['get', 'hpa', 'image', ...able])).toBe('True');
  await kubectl(['delete', 'hpa', 'image']);
});
