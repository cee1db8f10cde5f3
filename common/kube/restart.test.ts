import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '@semblance/local/process/ports';
import { resolveTools } from '@semblance/local/toolchain/toolchain';
import { startKubeProxy } from '@semblance/testkit/kube/kube-proxy';
import { startKube } from '@semblance/testkit/servers/start';
import { Registry } from 'prom-client';
import { expect, it } from 'vitest';
import { silentLogger } from '../logging.ts';
import { createKubeClient } from './client.ts';
import { createLeaderElection } from './leader-election.ts';
import { createReflector } from './reflector.ts';
import { LEASE_RESOURCE } from './resources.ts';

it('outlives a restart of the API server, after which what was missed can only be listed (410)', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'semblance-restart-'));
  const binaries = await resolveTools(['etcd', 'kube-apiserver']);
  const port = await freePort();
  const options = { binaries, dir, port, durable: false };
  let kube = await startKube(options);
  const proxied = join(dir, 'proxied');
  const proxy = await startKubeProxy(kube.kubeconfigPath, proxied);
  const stop = new AbortController();
  const fieldManager = 'semblance-test';
  const direct = createKubeClient({ kubeconfigPath: kube.kubeconfigPath, fieldManager });
  const client = createKubeClient({ kubeconfigPath: proxied, fieldManager });
  try {
    const namespace = 'default';
    const logger = silentLogger();
    const registry = new Registry();
    const told: string[] = [];
    const reflector = createReflector({
      client,
      resource: LEASE_RESOURCE,
      namespace,
      logger,
      registry,
      labelSelector: 'mine',
      handlers: {
        onAdd: ({ metadata }) => void told.push(`add ${metadata.name}`),
        onDelete: ({ metadata }) => void told.push(`delete ${metadata.name}`),
      },
    });
    const create = (name: string) =>
      direct.create(LEASE_RESOURCE, { metadata: { name, namespace, labels: { mine: '' } }, spec: {} });
    const remove = (name: string) => direct.delete(LEASE_RESOURCE, { name, namespace });
    await create('reborn');
    await create('gone');

    let terms = 0;
    const election = createLeaderElection({
      client: direct,
      namespace,
      name: 'leader',
      identity: 'me',
      logger,
    });
    const running = Promise.all([
      reflector.run(stop.signal),
      election.run(stop.signal, async (leadership) => {
        terms++;
        await new Promise((resolve) => leadership.addEventListener('abort', resolve, { once: true }));
      }),
    ]);
    await expect.poll(() => told, { timeout: 60_000 }).toHaveLength(2);
    await expect.poll(() => election.leading, { timeout: 60_000 }).toBe(true);
    await expect.poll(() => reflector.healthySince, { timeout: 60_000 }).toBeTypeOf('number');

    told.length = 0;
    proxy.set('refuse');
    await expect.poll(() => reflector.healthySince).toBeUndefined();
    await remove('reborn');
    await remove('gone');
    await create('reborn');
    await kube.stop();
    await expect(direct.version()).rejects.toMatchObject({ code: 'unavailable', retryable: true });
    kube = await startKube(options);
    await create('after');
    proxy.set('open');

    await expect
      .poll(() => told.toSorted(), { timeout: 60_000 })
      .toEqual(['add after', 'add reborn', 'delete gone', 'delete reborn']);
    expect(told.indexOf('delete reborn')).toBeLessThan(told.indexOf('add reborn'));
    await expect.poll(() => reflector.healthySince, { timeout: 60_000 }).toBeTypeOf('number');
    const metrics = await registry.metrics();
    expect(metrics).toMatch(/semblance_kube_watch_failures_total\{resource="leases",code="gone"\} 1\n/);
    expect(metrics).toMatch(/semblance_kube_lists_total\{resource="leases"\} 2\n/);
    // The leader survives an outage shorter than the renew deadline. A longer outage starts a new term.
    await expect.poll(() => election.leading, { timeout: 60_000 }).toBe(true);
    expect(terms).toBeLessThanOrEqual(2);
    stop.abort();
    await running;
  } finally {
    stop.abort();
    await Promise.all([client.close(), direct.close()]);
    await proxy.close();
    await kube.stop();
    await rm(dir, { recursive: true, force: true });
  }
}, 400_000);
