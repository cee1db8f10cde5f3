import { expect, test } from 'vitest';
import { longPortrait } from '../../support/media.ts';
import { renderJob, swapInputs, untilPhase } from '../../support/render-jobs.ts';
import { kubectl, pods, upgrade, withApi } from './release.ts';

test('helm upgrade replaces every Pod while jobs run and wait, and loses none', async () => {
  const inputs = await withApi(async (api) => swapInputs(api, await longPortrait()));
  const components = ['gateway', 'control-plane', 'operator', 'agent'];
  const uids = async () =>
    (await Promise.all(components.map(pods))).flat().map(({ metadata }) => metadata.uid);
  const before = await uids();
  const jobs = Array.from({ length: 6 }, () => renderJob(inputs));
  for (const job of jobs) await kubectl.apply(job);
  await upgrade(['--set=podAnnotations.upgraded=yes']);
  for (const { metadata } of jobs) {
    const { status } = await untilPhase(kubectl, metadata.name, 'Succeeded', 200_000);
    expect(status?.failure).toBeUndefined();
  }
  // Helm waits for what it installed; the operator rolls the agents' Pods out, one ready before another goes.
  await expect
    .poll(async () => (await uids()).filter((uid) => before.includes(uid)), {
      timeout: 180_000,
      interval: 500,
    })
    .toEqual([]);
});
