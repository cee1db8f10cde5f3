import { longPortrait } from '@semblance/testkit/stack/media';
import { renderJob, swapInputs, untilPhaseOrEnd } from '@semblance/testkit/stack/render-jobs';
import { afterAll, expect, test } from 'vitest';
import { leftovers } from './leftovers.ts';
import { setRate, streaming } from './live.ts';
import { helm, install, kubectl, makeNamespace, NAMESPACE, RELEASE, withNodePort } from './release.ts';

const LIMIT_S = 60;

const stop = new AbortController();
afterAll(() => stop.abort());

/**
 * Runs `remove` while jobs, created by hand and over the API, run and wait, and while a session streams.
 * @param code close code that the session's socket must get
 */
async function underWay(code: number, remove: () => Promise<unknown>): Promise<void> {
  const long = await longPortrait();
  await withNodePort(async (api) => {
    const inputs = await swapInputs(api, long);
    const [image, face] = inputs;
    const client = await streaming(api, stop.signal);
    await api.swap({ image_key: image?.key ?? '', face_key: face?.key ?? '' });
    const jobs = Array.from({ length: 3 }, () => renderJob(inputs));
    for (const job of jobs) await kubectl.apply(job);
    const [first] = jobs;
    if (first) await untilPhaseOrEnd(kubectl, first.metadata.name, 'Running');
    const begun = performance.now();
    const { 1: end } = await Promise.all([remove(), client.closed]);
    const ended = ((end.at - begun) / 1_000).toFixed(1);
    console.log(`the session was closed after ${ended} s: ${end.code} ${end.reason}`);
    expect(end.code, end.reason).toBe(code);
  });
}

test('helm uninstall with jobs and a session under way ends within a minute and leaves the definitions, nothing else', async () => {
  // Helm deletes the LiveSession while everything that carries it still runs, and that stays for seconds.
  await underWay(4003, async () => {
    const begun = Date.now();
    await helm(['uninstall', RELEASE, '--wait', '--timeout', `${LIMIT_S}s`]);
    const took = (Date.now() - begun) / 1000;
    console.log(`helm uninstall took ${took.toFixed(1)} s`);
    expect(took).toBeLessThan(LIMIT_S);
  });
  // Dependents of a resource that Helm removed are deleted a moment later.
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

test('a namespace with a release without volumes, jobs and a session under way is deleted within a minute', async () => {
  // This is the drain time of gateways that are replaced one by one. Kubernetes waits for up to half of it when it
  // deletes such a gateway.
  await install(['--set=persistence.enabled=false', '--set=gateway.liveDrainSeconds=300']);
  await setRate();
  // Kubernetes 1.34 and newer deletes Pods first. The agent of the session is told to end, and looks whether the
  // namespace is being deleted.
  await underWay(1001, async () => {
    const begun = Date.now();
    await kubectl(['delete', 'namespace', NAMESPACE, `--timeout=${LIMIT_S - 2}s`]);
    const took = (Date.now() - begun) / 1000;
    console.log(`deletion of the namespace took ${took.toFixed(1)} s`);
    expect(took).toBeLessThan(LIMIT_S);
  });
  // The name of the namespace must be usable again.
  await makeNamespace();
});
