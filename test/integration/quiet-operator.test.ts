import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { GPUAGENT_RESOURCE } from '@semblance/crds/gen/gpuagents';
import { RENDERJOB_RESOURCE } from '@semblance/crds/gen/renderjobs';
import { AGENT_FLAGS } from '@semblance/gpu-agent/node-flags';
import { applyCrds } from '@semblance/local/crds';
import { httpGet } from '@semblance/local/process/http-get';
import { freePort } from '@semblance/local/process/ports';
import { resolveTools } from '@semblance/local/toolchain/toolchain';
import { createHarness } from '@semblance/testkit/operator/harness';
import { conditionOf, poolTools } from '@semblance/testkit/operator/pools';
import { testNats, testPostgres } from '@semblance/testkit/servers/shared';
import { startKube } from '@semblance/testkit/servers/start';
import { expect, it } from 'vitest';
import { parse } from 'yaml';

/**
 * Longer than the periods at which operators and agents check again, in ms. Jobs in a short queue get their places
 * sooner.
 */
const QUIET_MS = 10_000;
/** Longer than the time, in ms, until a job at the front of the queue gets its new place. */
const SETTLED_MS = 5_000;

/**
 * Returns the number of writes to an API server by kind. Leases are left out, because every live process renews its
 * own.
 */
async function writesAt(kubeconfigPath: string): Promise<Record<string, number>> {
  const config = parse(await readFile(kubeconfigPath, 'utf8')) as {
    clusters: { cluster: { server: string; 'certificate-authority-data': string } }[];
    users: { user: { token: string } }[];
  };
  const { server = '', 'certificate-authority-data': ca = '' } = config.clusters[0]?.cluster ?? {};
  const { hostname: host, port } = new URL(server);
  const text = await httpGet({
    host,
    port: Number(port),
    path: '/metrics',
    ca: Buffer.from(ca, 'base64'),
    headers: { authorization: `Bearer ${config.users[0]?.user.token}` },
    signal: AbortSignal.timeout(30_000),
  });
  const counts: Record<string, number> = {};
  for (const [, labels = '', count] of text.matchAll(/^apiserver_request_total\{(.*)\} (\S+)$/gm)) {
    const {
      verb = '',
      group,
      resource = '',
    } = Object.fromEntries([...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, name, value]) => [name, value]));
    const ours = group === 'semblance.dev' || resource === 'events' || resource === 'pods';
    if (!ours || !['POST', 'PUT', 'PATCH', 'APPLY', 'DELETE', 'DELETECOLLECTION'].includes(verb)) continue;
    const name = `${verb} ${resource}`;
    counts[name] = (counts[name] ?? 0) + Number(count);
  }
  return counts;
}

it('writes nothing while nothing changes: two operators, a control plane, agents, a pool, and jobs that wait, run, are suspended or have ended', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'semblance-quiet-'));
  const binaries = await resolveTools(['etcd', 'kube-apiserver']);
  const kube = await startKube({ binaries, dir, port: await freePort(), durable: false });
  const { kubeconfigPath } = kube;
  const namespace = 'semblance';
  await applyCrds({ kubeconfig: kubeconfigPath, namespace });
  const harness = await createHarness({ kubeconfigPath, namespace, close: async () => {} });
  // A real agent without work: it is drained, so that the other agent gets all jobs.
  const main = join(import.meta.dirname, '../../gpu-agent/main.ts');
  const real = spawn(process.execPath, [...AGENT_FLAGS, main], {
    stdio: 'ignore',
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      KUBECONFIG: kubeconfigPath,
      SEMBLANCE_NAMESPACE: namespace,
      SEMBLANCE_AGENT_NAME: 'real',
      SEMBLANCE_AGENT_SLOTS: '1',
      SEMBLANCE_AGENT_WORK_DIR: join(dir, 'agent'),
      SEMBLANCE_LIVE_VOICE_SLOTS: '1',
      SEMBLANCE_LIVE_VIDEO_SLOTS: '0',
    },
  });
  const ended = once(real, 'exit');
  const [database, nats, health] = await Promise.all([testPostgres(), testNats(), freePort()]);
  const plane = spawn(process.execPath, [join(import.meta.dirname, '../../control-plane/main.ts')], {
    stdio: 'ignore',
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      KUBECONFIG: kubeconfigPath,
      SEMBLANCE_NAMESPACE: namespace,
      SEMBLANCE_POSTGRES_URL: database.url,
      SEMBLANCE_NATS_URL: nats.url,
      SEMBLANCE_OBJECTS_URL: `file://${join(dir, 'objects')}`,
      SEMBLANCE_OBJECTS_SIGNING_KEY: '00'.repeat(32),
      SEMBLANCE_PUBLIC_URL: 'http://127.0.0.1:1',
      SEMBLANCE_ADMIN_TOKEN: '0123456789abcdef',
      SEMBLANCE_HEALTH_LISTEN: `127.0.0.1:${health}`,
    },
  });
  const planeEnded = once(plane, 'exit');
  const planeIsReady = async () =>
    (await fetch(`http://127.0.0.1:${health}/readyz`).catch(() => undefined))?.ok ?? false;
  try {
    const patient = { election: { leaseDurationMs: 60_000, renewDeadlineMs: 50_000, retryPeriodMs: 500 } };
    await harness.operator(patient);
    await harness.operator(patient);
    await harness.agentUntil('real', ({ status }) => (status?.slots ?? 0) > 0 && isReady(status), 100_000);
    await harness.client.mergePatch(
      GPUAGENT_RESOURCE,
      { namespace, name: 'real' },
      { spec: { drain: true } },
    );
    await harness.agentUntil('real', ({ status }) => !isReady(status));
    await harness.agent({
      name: 'busy',
      slots: 1,
      script: (run) => void (run.request.jobName === 'over' && run.succeed()),
    });
    await harness.job('over');
    await harness.until(
      'over',
      ({ status, metadata }) => status?.phase === 'Succeeded' && !metadata.finalizers?.length,
    );
    await harness.job('runs');
    await harness.until('runs', ({ status }) => status?.phase === 'Running');
    await harness.job('suspended', { suspend: true });
    const pools = poolTools(harness);
    const autoscaling = { minReplicas: 0, maxReplicas: 2 };
    await pools.create('none-wanted', { capabilities: ['voice'], autoscaling });
    await pools.until('none-wanted', (pool) => conditionOf(pool, 'Ready')?.reason === 'ScaledToZero');
    await expect.poll(planeIsReady, { timeout: 60_000 }).toBe(true);
    const waiting = Array.from({ length: 8 }, (_, i) => `waits-${i}`);
    for (const name of waiting) await harness.job(name);
    for (const name of waiting)
      await harness.until(name, ({ status }) => (status?.conditions ?? []).length > 0);

    // The effects of the last job may not be written yet.
    let before = await writesAt(kubeconfigPath);
    await expect
      .poll(
        async () => {
          const last = before;
          before = await writesAt(kubeconfigPath);
          return Object.entries(before).filter(([name, count]) => count !== last[name]);
        },
        { interval: SETTLED_MS, timeout: 60_000 },
      )
      .toEqual([]);
    await delay(QUIET_MS);
    expect(await writesAt(kubeconfigPath)).toEqual(before);

    // All participants must still be working.
    expect(await planeIsReady()).toBe(true);
    const { items } = await harness.client.list(RENDERJOB_RESOURCE, { namespace });
    expect(Map.groupBy(items, ({ status }) => status?.phase).get('Running')).toHaveLength(1);
    expect(items).toHaveLength(waiting.length + 3);
    // A write that is made must be counted.
    await harness.job('one-more');
    await harness.until('one-more', ({ status }) => (status?.conditions ?? []).length > 0);
    expect(await writesAt(kubeconfigPath)).not.toEqual(before);
  } finally {
    real.kill('SIGTERM');
    plane.kill('SIGTERM');
    await Promise.all([ended, planeEnded]);
    await harness.close();
    await kube.stop();
    await Promise.all([database.close(), nats.close()]);
    await rm(dir, { recursive: true, force: true });
  }
}, 240_000);

function isReady(status: { conditions?: { type: string; status: string }[] } | undefined): boolean {
  return status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') ?? false;
}
