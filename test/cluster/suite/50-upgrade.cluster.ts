import { longPortrait } from '@semblance/testkit/stack/media';
import { renderJob, swapInputs, untilPhase } from '@semblance/testkit/stack/render-jobs';
import { afterAll, expect, test } from 'vitest';
import { expectCharged, heardMs, setRate, streaming, untilHeard } from './live.ts';
import { kubectl, pods, upgrade, withNodePort } from './release.ts';

/** What the chart gives live sessions where a gateway goes before its successor comes. */
const RECREATED_DRAIN_S = 10;
const stop = new AbortController();
afterAll(() => stop.abort());

test('helm upgrade replaces every Pod while jobs run and wait and a session streams, and loses none', async () => {
  await setRate();
  const components = ['gateway', 'control-plane', 'operator', 'agent'];
  const uids = async () =>
    (await Promise.all(components.map(pods))).flat().map(({ metadata }) => metadata.uid);
  await withNodePort(async (api) => {
    const inputs = await swapInputs(api, await longPortrait());
    const before = await uids();
    const jobs = Array.from({ length: 6 }, () => renderJob(inputs));
    for (const job of jobs) await kubectl.apply(job);
    const client = await streaming(api, stop.signal);
    const upgradedAt = performance.now();
    const upgraded = upgrade([`--set=podAnnotations.upgraded=at-${Date.now()}`]);

    // With a volume that one node may mount, a gateway goes before its successor comes.
    const { code, reason, at } = await client.closed;
    expect([code, reason]).toEqual([1001, expect.stringContaining('going_away')]);
    const notice = { type: 'ending', reason: 'gateway_draining', in_seconds: RECREATED_DRAIN_S };
    expect(client.notices).toEqual([notice]);
    const charged = await expectCharged(api, client, { status: 'succeeded', reason: 'cancelled' });
    const ended = Math.round(at - upgradedAt);
    console.log(`closed ${ended} ms after the upgrade began; ${charged} ms charged`);

    const next = await streaming(api, stop.signal);
    await upgraded;
    for (const { metadata } of jobs) {
      const { status } = await untilPhase(kubectl, metadata.name, 'Succeeded', 200_000);
      expect(status?.failure).toBeUndefined();
    }
    // Its agent is let be until it has ended.
    const heard = heardMs(next);
    await untilHeard(next, heard + 1_000);
    next.close();
    await next.closed;
    await expectCharged(api, next, { status: 'succeeded', reason: null });
    // Helm waits for what it installed; the operator rolls the agents' Pods out, one ready before another goes.
    await expect
      .poll(async () => (await uids()).filter((uid) => before.includes(uid)), {
        timeout: 180_000,
        interval: 500,
      })
      .toEqual([]);
  });
});
