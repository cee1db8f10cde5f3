import { expect, test } from 'vitest';
import { longPortrait } from '../../support/media.ts';
import { renderJob, swapInputs, untilPhaseOrEnd } from '../../support/render-jobs.ts';
import { leftovers } from './leftovers.ts';
import { helm, install, kubectl, makeNamespace, NAMESPACE, RELEASE, withApi } from './release.ts';

const LIMIT_S = 60;

/** Jobs by hand and of the API, running and waiting. */
async function liveResources(): Promise<void> {
  const long = await longPortrait();
  const inputs = await withApi(async (api) => {
    const [image, face] = await swapInputs(api, long);
    await api.swap({ image_key: image?.key ?? '', face_key: face?.key ?? '' });
    return [image, face].flatMap((input) => input ?? []);
  });
  const jobs = Array.from({ length: 3 }, () => renderJob(inputs));
  for (const job of jobs) await kubectl.apply(job);
  const [first] = jobs;
  if (first) await untilPhaseOrEnd(kubectl, first.metadata.name, 'Running');
}

test('helm uninstall with jobs under way ends within a minute and leaves the definitions, nothing else', async () => {
  await liveResources();
  const begun = Date.now();
  await helm(['uninstall', RELEASE, '--wait', '--timeout', `${LIMIT_S}s`]);
  const took = (Date.now() - begun) / 1000;
  console.log(`helm uninstall took ${took.toFixed(1)} s`);
  expect(took).toBeLessThan(LIMIT_S);
  // What belongs to a resource that Helm removed goes a moment after it.
  await expect.poll(leftovers, { timeout: 30_000 }).toEqual([]);
  const everywhere = [
    'get',
    'clusterroles,clusterrolebindings',
    '-l',
    `app.kubernetes.io/instance=${RELEASE}`,
  ];
  expect((await kubectl([...everywhere, '-o', 'name'])).trim()).toBe('');
  const definitions = await kubectl(['get', 'customresourcedefinitions', '-o', 'name']);
  expect(definitions).toContain('renderjobs.semblance.dev');
});

test('a namespace with a release without volumes and jobs under way is deleted within a minute', async () => {
  await install(['--set=persistence.enabled=false']);
  await liveResources();
  const begun = Date.now();
  await kubectl(['delete', 'namespace', NAMESPACE, `--timeout=${LIMIT_S - 2}s`]);
  const took = (Date.now() - begun) / 1000;
  console.log(`deletion of the namespace took ${took.toFixed(1)} s`);
  expect(took).toBeLessThan(LIMIT_S);
  // And its name can be used again.
  await makeNamespace();
});
