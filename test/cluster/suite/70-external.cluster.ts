import { request } from 'node:https';
import { CreateBucketCommand, ListObjectsV2Command } from '@aws-sdk/client-s3';
import { eventually } from '@semblance/testkit/stack/eventually';
import { conditionOf } from '@semblance/testkit/stack/kubectl';
import { ADMIRAL, ASTRONAUT, longPortrait } from '@semblance/testkit/stack/media';
import { renderJob, swapInputs, untilPhase, whileRunning } from '@semblance/testkit/stack/render-jobs';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { leftovers } from './leftovers.ts';
import { expectCharged, heardMs, setRate, streaming, untilHeard } from './live.ts';
import { DATABASE, type Outside, type Server, startOutside } from './outside.ts';
import {
  cluster,
  helm,
  isReady,
  kubectl,
  makeNamespace,
  NAMESPACE,
  pods,
  RELEASE,
  untilReady,
  upgrade,
  withApi,
  withNodePort,
} from './release.ts';

const BUCKET = 'media';
const CHART = 'charts/semblance';
const SERVICES = ['gateway', 'control-plane', 'operator'];
const MINE = /\/own-/;
const hostOf = (server: string) => `own-${server}.${NAMESPACE}.svc`;
let outside: Outside;
let values: string[];

beforeAll(async () => {
  const found = await kubectl(['get', 'namespace', NAMESPACE, '--ignore-not-found', '-o', 'name']);
  if (!found) await makeNamespace();
  outside = await startOutside(cluster.hostAddress, hostOf);
  for (const server of ['postgres', 'nats', 's3'] as const) await name(server, outside[server]);
  values = [
    ...['postgres', 'nats', 'objects.s3'].map(
      (part) => `--set=${part}.existingSecret=own-${part.split('.').at(-1)}`,
    ),
    '--set=caBundle.existingConfigMap=own-authority',
    `--set=objects.s3.bucket=${BUCKET}`,
    '--set=objects.s3.forcePathStyle=true',
    `--set=objects.s3.endpoint=https://${hostOf('s3')}:${outside.s3.port}`,
    `--set=objects.s3.publicEndpoint=https://${cluster.hostAddress}:${outside.s3.port}`,
  ];
});
const stop = new AbortController();
afterAll(async () => {
  stop.abort();
  await outside?.close();
});

/** Creates a name in the cluster for a server outside it. */
async function name(server: string, { port }: Server): Promise<void> {
  const metadata = { name: `own-${server}` };
  await kubectl.apply({ apiVersion: 'v1', kind: 'Service', metadata, spec: { ports: [{ port }] } });
  await kubectl.apply({
    apiVersion: 'discovery.k8s.io/v1',
    kind: 'EndpointSlice',
    metadata: { ...metadata, labels: { 'kubernetes.io/service-name': metadata.name } },
    addressType: 'IPv4',
    ports: [{ port }],
    endpoints: [{ addresses: [cluster.hostAddress] }],
  });
}

/** Creates a Secret as docs/guide/platform/install.md describes it. */
async function secret(of: string, entries: Record<string, string>): Promise<void> {
  await kubectl(['delete', 'secret', `own-${of}`, '--ignore-not-found']);
  const literals = Object.entries(entries).map(([key, value]) => `--from-literal=${key}=${value}`);
  await kubectl(['create', 'secret', 'generic', `own-${of}`, ...literals]);
}
const postgresUrl = (password: string) =>
  `postgres://${DATABASE}:${password}@${hostOf('postgres')}:${outside.postgres.port}/${DATABASE}?sslmode=verify-full`;
const natsUrl = (token: string) => `tls://${token}@${hostOf('nats')}:${outside.nats.port}`;

/** Returns the last log lines of each container of a component, also from before its last restart. */
async function said(component: string): Promise<string> {
  const found = await pods(component);
  const logs = found.flatMap(({ metadata }) =>
    [[], ['--previous']].map((more) =>
      kubectl(['logs', metadata.name, '--tail=100', ...more]).catch(() => ''),
    ),
  );
  return (await Promise.all(logs)).join('\n');
}

test('what is wrong with the servers is refused by the chart, or said by the Pods, which go on once it is mended', async () => {
  await kubectl(['create', 'configmap', 'own-authority', `--from-literal=ca.crt=${outside.authority}`]);
  await secret('postgres', { uri: postgresUrl('wrong') });
  await secret('nats', { url: natsUrl('wrong') });
  const { accessKeyId, secretAccessKey } = outside.s3.credentials;
  await secret('s3', { 'access-key-id': accessKeyId, 'secret-access-key': secretAccessKey });
  const one = ['gateway', 'controlPlane', 'operator'].map((each) => `--set=${each}.replicas=1`);
  const install = () => helm(['install', RELEASE, CHART, ...values, ...one]);
  await expect(install()).rejects.toThrow('postgres.existingSecret: the Secret own-postgres has no key url');

  await secret('postgres', { url: postgresUrl('wrong') });
  await install();
  const words = {
    'control-plane': [
      `password authentication failed for user \\"${DATABASE}\\"`,
      'cannot connect to NATS: ',
      `has no bucket \\"${BUCKET}\\"`,
    ],
    gateway: [`has no bucket \\"${BUCKET}\\"`],
    operator: [`has no bucket \\"${BUCKET}\\"`],
  };
  for (const [component, wanted] of Object.entries(words))
    await eventually(
      `the reasons in the log of ${component}`,
      async () => {
        const log = await said(component);
        return wanted.every((text) => log.includes(text)) || undefined;
      },
      { withinMs: 180_000, everyMs: 500 },
    );
  await secret('postgres', { url: postgresUrl(outside.postgres.password) });
  await secret('nats', { url: natsUrl(outside.nats.token) });
  await outside.s3.client.send(new CreateBucketCommand({ Bucket: BUCKET }));
  await eventually(
    'a ready Pod of each service',
    async () => {
      const ready = await Promise.all(
        SERVICES.map(async (each) => (await pods(each)).filter(isReady).length),
      );
      return ready.every((count) => count === 1) || undefined;
    },
    { withinMs: 180_000, everyMs: 500 },
  );
  // `kubectl describe` shows the reason why a container ended.
  const ends = (await pods('control-plane')).flatMap(
    ({ status }) => status.containerStatuses?.[0]?.lastState?.terminated?.message ?? [],
  );
  expect(ends.join('\n')).toMatch(
    /SEMBLANCE_(POSTGRES|NATS)_URL: .*(password authentication|authorization violation)/i,
  );
  await untilReady();
});

test('helm test and a photo through the Service, whose output clients fetch from S3', async () => {
  expect(await helm(['test', RELEASE, '--logs', '--timeout', '5m'])).toMatch(/Phase:\s+Succeeded/);
  await withApi(async (api) => {
    const [image, face] = await Promise.all([api.upload(ASTRONAUT), api.upload(ADMIRAL)]);
    const job = await api.finished((await api.swap({ image_key: image, face_key: face })).id);
    expect(job).toMatchObject({ status: 'succeeded', error: null });
    const link = new URL(job.output_url ?? '');
    expect(link.origin).toBe(`https://${cluster.hostAddress}:${outside.s3.port}`);
    const { status, type, bytes } = await fetchTrusting(link, outside.authority);
    expect([status, type]).toEqual([200, 'image/png']);
    expect(bytes).toBeGreaterThan(10_000);
  });
  // All connections to the database must use TLS and the one role.
  const sessions = await outside.postgres.sql`
    select distinct usename::text as role, ssl from pg_stat_ssl join pg_stat_activity using (pid)
    where application_name like 'semblance-%'`;
  expect(sessions).toEqual([{ role: DATABASE, ssl: true }]);
});

test('a job that waits says why; one whose agent is deleted succeeds elsewhere', async () => {
  const long = await longPortrait();
  const inputs = await withApi((api) => swapInputs(api, long));
  const begin = async () => {
    const job = renderJob(inputs);
    await kubectl.apply(job);
    return job.metadata.name;
  };
  const { running, behind } = await whileRunning(kubectl, begin, async (running) => {
    const behind = await begin();
    const agent = (await kubectl.renderJob(running))?.status?.agent;
    if (!agent) return undefined;
    await kubectl(['delete', 'pod', agent, '--wait=false']);
    return { running, behind };
  });
  const reason = await eventually('the reason', async () => {
    const ready = conditionOf(await kubectl.renderJob(behind), 'Ready');
    return ready?.status === 'False' ? ready : undefined;
  });
  expect(reason.message).toMatch(/waiting|slot|agent/);
  for (const name of [running, behind])
    expect((await untilPhase(kubectl, name, 'Succeeded')).status?.failure).toBeUndefined();
  await untilReady();
});

test('helm upgrade to two of each service replaces those that took from Secrets that have changed since, and loses no job and no session', async () => {
  await setRate();
  await withNodePort(async (api) => {
    const inputs = await swapInputs(api);
    const uids = async (components: string[]) =>
      (await Promise.all(components.map(pods))).flat().map(({ metadata }) => metadata.uid);
    const before = await uids(SERVICES);
    const agentsBefore = await uids(['agent']);
    const client = await streaming(api, stop.signal);
    const jobs = Array.from({ length: 3 }, () => renderJob(inputs));
    for (const job of jobs) await kubectl.apply(job);
    let upgraded = false;
    const least = { gateway: 1, 'control-plane': 1 };
    const watching = (async () => {
      while (!upgraded)
        for (const component of ['gateway', 'control-plane'] as const)
          least[component] = Math.min(least[component], (await pods(component)).filter(isReady).length);
    })();
    const two = ['gateway', 'controlPlane', 'operator'].map((each) => `--set=${each}.replicas=2`);
    await upgrade(two).finally(() => {
      upgraded = true;
    });
    await watching;
    expect(least).toEqual({ gateway: 1, 'control-plane': 1 });
    for (const each of SERVICES) expect((await pods(each)).filter(isReady), each).toHaveLength(2);
    for (const { metadata } of jobs)
      expect((await untilPhase(kubectl, metadata.name, 'Succeeded')).status?.failure).toBeUndefined();
    expect(await uids(['agent'])).toEqual(agentsBefore);
    // The gateway that carries the session announces the drain and stays for it; its successors serve all other
    // calls.
    const left = () => uids(SERVICES).then((all) => all.filter((uid) => before.includes(uid)).length);
    // helm returns when the gateway is told to end; the gateway hears of that from its node a moment later.
    const notice = { type: 'ending', reason: 'gateway_draining', in_seconds: 300 };
    await expect.poll(() => client.notices, { timeout: 10_000 }).toEqual([notice]);
    await untilHeard(client, heardMs(client) + 2_000);
    expect(await left()).toBe(1);
    client.close();
    await client.closed;
    await expectCharged(api, client, { status: 'succeeded', reason: null });
    await expect.poll(left, { timeout: 60_000, interval: 500 }).toBe(0);
  });
});

test('helm uninstall leaves nothing in the cluster, and all data where the owner keeps it', async () => {
  const count = async () => {
    const [row] = await outside.postgres.sql`
      select (select count(*)::int from accounts) as accounts, (select count(*)::int from jobs) as jobs`;
    const { KeyCount } = await outside.s3.client.send(new ListObjectsV2Command({ Bucket: BUCKET }));
    return { ...row, objects: KeyCount };
  };
  const before = await count();
  expect(before.objects).toBeGreaterThan(3);
  await helm(['uninstall', RELEASE, '--wait', '--timeout', '60s']);
  await expect
    .poll(async () => (await leftovers()).filter((each) => !MINE.test(each)), { timeout: 30_000 })
    .toEqual([]);
  const after = await count();
  expect(after).toEqual(before);
});

function fetchTrusting(url: URL, ca: string): Promise<{ status?: number; type?: string; bytes: number }> {
  return new Promise((resolve, reject) => {
    request(url, { ca }, (response) => {
      let bytes = 0;
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
      });
      response.on('end', () =>
        resolve({ status: response.statusCode, type: response.headers['content-type'], bytes }),
      );
    })
      .on('error', reject)
      .end();
  });
}
