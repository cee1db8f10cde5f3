import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { startKube } from '../../local/kube.ts';
import { freePort } from '../../local/process/ports.ts';
import { resolveTools } from '../../local/toolchain/toolchain.ts';
import { silentLogger } from '../logging.ts';
import { createKubeClient } from './client.ts';
import { createLeaderElection } from './leader-election.ts';
import { createReflector } from './reflector.ts';
import { LEASE_RESOURCE } from './resources.ts';

it('outlives a restart of the API server', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'semblance-restart-'));
  const binaries = await resolveTools(['etcd', 'kube-apiserver']);
  const port = await freePort();
  const options = { binaries, dir, port, durable: false };
  let kube = await startKube(options);
  const stop = new AbortController();
  const client = createKubeClient({ kubeconfigPath: kube.kubeconfigPath, fieldManager: 'semblance-test' });
  try {
    const namespace = 'default';
    const logger = silentLogger();
    const added: string[] = [];
    const reflector = createReflector({
      ...{ client, resource: LEASE_RESOURCE, namespace, logger },
      handlers: { onAdd: ({ metadata }) => void added.push(metadata.name ?? '') },
    });
    let terms = 0;
    const election = createLeaderElection({ client, namespace, name: 'leader', identity: 'me', logger });
    const running = Promise.all([
      reflector.run(stop.signal),
      election.run(stop.signal, async (leadership) => {
        terms++;
        await new Promise((resolve) => leadership.addEventListener('abort', resolve, { once: true }));
      }),
    ]);
    await expect.poll(() => added).toContain('leader');

    await kube.stop();
    await expect.poll(() => reflector.healthySince).toBeUndefined();
    await expect(client.version()).rejects.toMatchObject({ code: 'unavailable', retryable: true });
    kube = await startKube(options);
    await client.create(LEASE_RESOURCE, { metadata: { name: 'after', namespace }, spec: {} });
    await expect.poll(() => added, { timeout: 20_000 }).toContain('after');
    expect(reflector.healthySince).toBeTypeOf('number');
    // An outage shorter than the renew deadline costs the leader nothing; a longer one, a new term.
    await expect.poll(() => election.leading, { timeout: 20_000 }).toBe(true);
    expect(terms).toBeLessThanOrEqual(2);
    stop.abort();
    await running;
  } finally {
    stop.abort();
    await client.close();
    await kube.stop();
    await rm(dir, { recursive: true, force: true });
  }
}, 120_000);
