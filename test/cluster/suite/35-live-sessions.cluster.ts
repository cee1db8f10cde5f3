import { afterAll, beforeAll, expect, test } from 'vitest';
import { carrierOf, expectCharged, setRate, streaming, untilHeard } from './live.ts';
import { cluster, kubectl, pods, untilReady, withApi } from './release.ts';

/** What an agent gives its live sessions when nothing else is set. */
const LIVE_DRAIN_S = 30;
const stop = new AbortController();

beforeAll(async () => {
  await setRate();
  await untilReady();
});

afterAll(async () => {
  stop.abort();
  await kubectl(['uncordon', cluster.node]);
});

test('kubectl drain under a live session: its client is told, it is closed and charged, the next one is elsewhere', async () => {
  await withApi(async (api) => {
    const client = await streaming(api, stop.signal);
    const former = await carrierOf(client);
    const drainedAt = performance.now();
    const drained = kubectl([
      ...['drain', cluster.node, '--ignore-daemonsets', '--delete-emptydir-data', '--timeout=55s'],
      '--pod-selector=app.kubernetes.io/component=agent',
    ]);
    const { code, reason, at } = await client.closed;
    const heardOn = client.lastAt - drainedAt;
    expect([code, reason]).toEqual([1001, expect.stringContaining('going_away')]);
    expect(client.notices).toEqual([{ type: 'ending', reason: 'agent_draining', in_seconds: LIVE_DRAIN_S }]);
    // Sound came until the end, and that was not before what was announced.
    expect(heardOn).toBeGreaterThan(LIVE_DRAIN_S * 1_000 - 500);
    const charged = await expectCharged(api, client, { status: 'succeeded', reason: 'cancelled' });
    const ended = Math.round(at - drainedAt);
    console.log(`closed ${ended} ms after kubectl drain began; ${charged} ms charged`);
    await drained;

    await kubectl(['uncordon', cluster.node]);
    const next = await streaming(api, stop.signal);
    expect(await carrierOf(next)).not.toBe(former);
    await untilHeard(next, 1_000);
    next.close();
    await next.closed;
    await expectCharged(api, next, { status: 'succeeded', reason: null });
    expect((await pods('agent')).map(({ metadata }) => metadata.name)).not.toContain(former);
  });
});
