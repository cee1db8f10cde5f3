import { afterAll, beforeAll, expect, test } from 'vitest';
import { eventually } from '../../support/eventually.ts';
import { longPortrait } from '../../support/media.ts';
import { renderJob, swapInputs, untilPhase, untilPhaseOrEnd } from '../../support/render-jobs.ts';
import { expectCharged, setRate, streaming, untilHeard } from './live.ts';
import {
  helm,
  install,
  kubectl,
  makeNamespace,
  NAMESPACE,
  pods,
  RELEASE,
  upgrade,
  withApi,
} from './release.ts';

/** How long a gateway that ends serves on, and then lets its live sessions finish. */
const [SERVE_S, LIVE_S] = [3, 40];
const stop = new AbortController();

beforeAll(async () => {
  const known = await kubectl(['get', 'namespace', NAMESPACE, '--ignore-not-found', '-o', 'name']);
  if (!known) await makeNamespace();
  await install([
    ...['gateway', 'controlPlane', 'operator', 'agents'].map((each) => `--set=${each}.replicas=2`),
    '--set=objects.volume.accessMode=ReadWriteMany',
    `--set=gateway.drainSeconds=${SERVE_S}`,
    `--set=gateway.liveDrainSeconds=${LIVE_S}`,
  ]);
  await setRate();
});

afterAll(() => stop.abort());

test('helm upgrade of two of each with sessions and jobs: none is lost, and each is charged once', async () => {
  const uids = async () =>
    (await Promise.all(['gateway', 'control-plane', 'operator', 'agent'].map(pods)))
      .flat()
      .map(({ metadata }) => metadata.uid);
  await withApi(async (api) => {
    const inputs = await swapInputs(api, await longPortrait());
    const [polite, stubborn] = [await streaming(api, stop.signal), await streaming(api, stop.signal)];
    const jobs = Array.from({ length: 3 }, () => renderJob(inputs));
    for (const job of jobs) await kubectl.apply(job);
    await untilPhaseOrEnd(kubectl, jobs[0]?.metadata.name ?? '', 'Running');
    const before = await uids();
    const upgraded = upgrade(['--set=podAnnotations.upgraded=yes']);

    const told = async (client: typeof polite) => {
      await eventually('notice of the gateway', () => client.notices[0], { withinMs: 150_000, everyMs: 20 });
      expect(client.notices).toEqual([{ type: 'ending', reason: 'gateway_draining', in_seconds: LIVE_S }]);
      return performance.now();
    };
    // As the documentation says: the next one is opened, then this one closed.
    await told(polite);
    await withApi(async (other) => {
      const next = await streaming(other, stop.signal);
      polite.close();
      await polite.closed;
      await expectCharged(api, polite, { status: 'succeeded', reason: null });

      const toldAt = await told(stubborn);
      const { code, reason, at } = await stubborn.closed;
      expect([code, reason]).toEqual([1001, expect.stringContaining('going_away')]);
      console.log(`closed ${Math.round(at - toldAt)} ms after it was known to be told`);
      await expectCharged(api, stubborn, { status: 'succeeded', reason: 'cancelled' });

      await upgraded;
      await untilHeard(next, 1_000);
      next.close();
      await next.closed;
      await expectCharged(other, next, { status: 'succeeded', reason: null });
    });
    for (const { metadata } of jobs) {
      const { status } = await untilPhase(kubectl, metadata.name, 'Succeeded', 200_000);
      expect(status).toMatchObject({ attempt: 1 });
      expect(status?.failure).toBeUndefined();
    }
    await expect
      .poll(async () => (await uids()).filter((uid) => before.includes(uid)), {
        timeout: 180_000,
        interval: 500,
      })
      .toEqual([]);
  });
  // Four agents, and sessions that are let finish on the way.
}, 900_000);

test('helm uninstall under a live session closes it', async () => {
  await withApi(async (api) => {
    const client = await streaming(api, stop.signal);
    await untilHeard(client, 1_000);
    const removed = helm(['uninstall', RELEASE, '--wait', '--timeout', '60s']);
    const { code, reason } = await client.closed;
    expect([code, reason]).toEqual([4003, expect.stringContaining('cancelled')]);
    await removed;
  });
});
