import { eventually } from '@semblance/testkit/stack/eventually';
import { conditionOf } from '@semblance/testkit/stack/kubectl';
import { renderJob, swapInputs, untilPhase } from '@semblance/testkit/stack/render-jobs';
import { expect, test } from 'vitest';
import { kubectl, withApi } from './release.ts';

test('a RenderJob by kubectl alone', async () => {
  const job = renderJob(await withApi((api) => swapInputs(api)));
  await kubectl.apply(job);
  const { name } = job.metadata;
  await kubectl(['wait', '--for=condition=Complete', `renderjob/${name}`, '--timeout=55s']);
  const done = await untilPhase(kubectl, name, 'Succeeded');
  expect(done.status).toMatchObject({ attempt: 1, output: { contentType: 'image/png' } });
  expect(await kubectl(['get', 'rj', name, '-o', 'wide'])).toContain('Succeeded');
  await kubectl(['delete', 'rj', name, '--timeout=30s']);
  expect(await kubectl.renderJob(name)).toBeUndefined();
});

test('kubectl says why a job waits', async () => {
  const job = renderJob(await withApi((api) => swapInputs(api)), { suspend: true });
  await kubectl.apply(job);
  const { name } = job.metadata;
  const waiting = await eventually('the reason', async () => {
    const seen = await kubectl.renderJob(name);
    return conditionOf(seen, 'Ready')?.reason === 'Suspended' ? seen : undefined;
  });
  expect(await kubectl(['get', 'rj', waiting.metadata.name, '-o', 'wide'])).toContain('Suspended');
  await kubectl.patch('rj', name, { spec: { suspend: false } });
  await untilPhase(kubectl, name, 'Succeeded');
});
