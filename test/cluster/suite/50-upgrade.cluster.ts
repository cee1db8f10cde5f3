import { longPortrait } from '@semblance/testkit/stack/media';
import { renderJob, swapInputs, untilPhase } from '@semblance/testkit/stack/render-jobs';
import { afterAll, expect, test } from 'vitest';
import { expectCharged, heardMs, setRate, streaming, untilHeard } from './live.ts';
import { kubectl, pods, upgrade, withNodePort } from './release.ts';

/** Time that the chart gives live sessions, in seconds, when a gateway ends before its successor starts. */
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

    // The volume can be mounted on one node only, so the gateway ends before its successor starts.
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
    // The agent of this session stays until the session has ended.
    const heard = heardMs(next);
    await untilHeard(next, heard + 1_000);
    next.close();
    await next.closed;
    await expectCharged(api, next, { status: 'succeeded', reason: null });
    // Helm waits only for what it installed. The operator replaces the agents' Pods itself, one after the other.
    await expect
      .poll(async () => (await uids()).filter((uid) => before.includes(uid)), {
        timeout: 180_000,
        interval: 500,
      })
      .toEqual([]);
  });
});
