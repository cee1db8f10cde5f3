import { afterAll, beforeAll, expect, test } from 'vitest';
import { carrierOf, expectCharged, setRate, streaming, untilHeard } from './live.ts';
import { CHARTS_POOL, makePool, podsOfPool, stands, untilPool } from './pools.ts';
import { cluster, kubectl, untilReady, withApi } from './release.ts';

const POOL = 'live';
/** Time that a drain gives live sessions, in seconds, instead of half a minute. */
const LIVE_DRAIN_S = 6;
const stop = new AbortController();

beforeAll(async () => {
  await setRate();
  await kubectl(['scale', 'agentpool', CHARTS_POOL, '--replicas=0']);
  await makePool(
    POOL,
    { replicas: 1 },
    { SEMBLANCE_AGENT_LIVE_DRAIN_SECONDS: String(LIVE_DRAIN_S), SEMBLANCE_LIVE_VIDEO_SLOTS: '0' },
  );
  await untilPool(POOL, 'its agent is ready', stands(1));
  await untilPool(CHARTS_POOL, 'nobody is left', stands(0));
});

afterAll(async () => {
  stop.abort();
  await kubectl(['uncordon', cluster.node]);
  await kubectl(['delete', 'agentpool', POOL, '--wait=false']);
  await kubectl(['scale', 'agentpool', CHARTS_POOL, '--replicas=1']);
  await untilReady();
});

test('kubectl drain under a live session: its client is told, it is closed and charged, the next one is elsewhere', async () => {
  await withApi(async (api) => {
    const client = await streaming(api, stop.signal);
    await untilHeard(client, 2_000);
    const former = await carrierOf(client);
    const drainedAt = performance.now();
    const drained = kubectl([
      ...['drain', cluster.node, '--ignore-daemonsets', '--delete-emptydir-data', '--timeout=50s'],
      `--pod-selector=semblance.dev/pool=${POOL}`,
    ]);
    const { code, reason, at } = await client.closed;
    const heardOn = client.lastAt - drainedAt;
    await drained;
    expect([code, reason]).toEqual([1001, expect.stringContaining('going_away')]);
    expect(client.notices).toEqual([{ type: 'ending', reason: 'agent_draining', in_seconds: LIVE_DRAIN_S }]);
    // Sound must come until the announced end.
    expect(heardOn).toBeGreaterThan(LIVE_DRAIN_S * 1_000 - 500);
    const charged = await expectCharged(api, client, { status: 'succeeded', reason: 'cancelled' });
    const ended = Math.round(at - drainedAt);
    console.log(`closed ${ended} ms after kubectl drain began; ${charged} ms charged`);

    await kubectl(['uncordon', cluster.node]);
    const next = await streaming(api, stop.signal);
    expect(await carrierOf(next)).not.toBe(former);
    await untilHeard(next, 1_000);
    next.close();
    await next.closed;
    await expectCharged(api, next, { status: 'succeeded', reason: null });
    expect((await podsOfPool(POOL)).map(({ metadata }) => metadata.name)).not.toContain(former);
  });
});
