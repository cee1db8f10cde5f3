import { X509Certificate } from 'node:crypto';
import { longPortrait } from '@semblance/testkit/stack/media';
import { renderJob, swapInputs, untilPhase } from '@semblance/testkit/stack/render-jobs';
import { afterAll, expect, test } from 'vitest';
import { expectCharged, setRate, streaming } from './live.ts';
import { kubectl, list, pods, RELEASE, withNodePort } from './release.ts';

/** Time that services get to read the authorities, in seconds: more than a kubelet takes to bring a Secret. */
const SPREAD_S = 150;
const COMPONENTS = ['gateway', 'control-plane', 'operator'];

const stop = new AbortController();
afterAll(() => stop.abort());

type Secret = { metadata: { name: string }; data?: Record<string, string> };
const inSecrets = async (key: string) =>
  Object.fromEntries(
    (await list<Secret>('secrets'))
      .filter(({ metadata }) => metadata.name.endsWith('-certificate'))
      .map(({ metadata, data }) => [
        metadata.name.replace(`${RELEASE}-`, '').replace('-certificate', ''),
        Buffer.from(data?.[key] ?? '', 'base64').toString(),
      ]),
  );
const processes = async () =>
  (await Promise.all([...COMPONENTS, 'agent'].map(pods)))
    .flat()
    .map(
      ({ metadata, status }) =>
        `${metadata.name} ${status.containerStatuses?.map((each) => each.restartCount)}`,
    )
    .sort();

test('the key of the authority of the certificates is nowhere in the namespace', async () => {
  const text = JSON.stringify(await list<Secret>('secrets'));
  expect(text).not.toContain('"ca.key"');
  const authorities = Object.values(await inSecrets('ca.crt'));
  expect(authorities).toHaveLength(4);
  for (const authority of authorities) expect(new X509Certificate(authority).ca).toBe(true);
});

/** Runs the Job of the chart as its CronJob would, for certificates that last less long than those in use. */
async function renewNow(): Promise<void> {
  const from = `--from=cronjob/${RELEASE}-certificates`;
  const job = JSON.parse(
    await kubectl(['create', 'job', 'renew-now', from, '--dry-run=client', '-o', 'json']),
  );
  const [container] = job.spec.template.spec.containers;
  const settings = {
    SEMBLANCE_CERTIFICATE_DAYS: '80',
    SEMBLANCE_CERTIFICATE_SPREAD_SECONDS: String(SPREAD_S),
  };
  container.env = [
    ...(container.env as { name: string }[]).filter(({ name }) => !(name in settings)),
    ...Object.entries(settings).map(([name, value]) => ({ name, value })),
  ];
  await kubectl.apply(job);
  const condition = 'jsonpath={.status.conditions[?(@.status=="True")].type}';
  // A call of kubectl has a minute, and this takes longer.
  await expect
    .poll(() => kubectl(['get', 'job', 'renew-now', '-o', condition]), {
      timeout: (SPREAD_S + 90) * 1_000,
      interval: 2_000,
    })
    .toContain('Complete');
  await kubectl(['delete', 'job', 'renew-now']);
}

test('certificates are renewed under a live session and a job; no process starts again, and one that does is known', async () => {
  await setRate();
  await withNodePort(async (api) => {
    const inputs = await swapInputs(api, await longPortrait());
    const [before, running] = [await inSecrets('tls.crt'), await processes()];
    const client = await streaming(api, stop.signal);
    const job = renderJob(inputs);
    await kubectl.apply(job);
    await renewNow();
    client.close();
    await client.closed;
    await expectCharged(api, client, { status: 'succeeded', reason: null });
    expect(
      (await untilPhase(kubectl, job.metadata.name, 'Succeeded', 200_000)).status?.failure,
    ).toBeUndefined();

    const after = await inSecrets('tls.crt');
    const served = (component: string) =>
      kubectl(['exec', `deployment/${RELEASE}-${component}`, '--', 'cat', '/etc/semblance/tls/tls.crt']);
    for (const component of COMPONENTS) {
      expect(after[component], component).not.toBe(before[component]);
      // A kubelet takes about a minute to bring a Secret.
      await expect
        .poll(() => served(component), { timeout: 150_000, interval: 2_000 })
        .toBe(after[component]);
    }
    expect(await processes()).toEqual(running);

    // New processes have no connection of before, and show the new certificates to all others.
    await kubectl(['rollout', 'restart', ...COMPONENTS.map((name) => `deployment/${RELEASE}-${name}`)]);
    for (const name of COMPONENTS)
      await kubectl(['rollout', 'status', `deployment/${RELEASE}-${name}`, '--timeout=120s']);
    const again = renderJob(inputs);
    await kubectl.apply(again);
    expect(
      (await untilPhase(kubectl, again.metadata.name, 'Succeeded', 200_000)).status?.failure,
    ).toBeUndefined();
    const next = await streaming(api, stop.signal);
    next.close();
    await next.closed;
    await expectCharged(api, next, { status: 'succeeded', reason: null });
  });
}, 900_000);
