import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { KubeConfig, KubernetesObjectApi } from '@kubernetes/client-node';
import { createDatabase } from '@semblance/local/postgres';
import { createTestServers, kubeconfigFor, remoteTestServers, type TestServers } from './servers.ts';
import { dropDatabase } from './start.ts';

/**
 * Real servers for tests. All tests of a run share one PostgreSQL, one nats-server and one Kubernetes API, started
 * on first use. Each call gets a part that no other test sees. Under vitest the servers belong to the run
 * (setup.ts), elsewhere to the calling process. They end with it, even if it is killed.
 */

/** Creates an empty database. `adminUrl` reaches the server's `postgres` database as superuser. */
export async function testPostgres(): Promise<{ url: string; adminUrl: string; close(): Promise<void> }> {
  const { adminUrl } = await (await servers()).postgres();
  const name = `test_${randomBytes(6).toString('hex')}`;
  return { url: await createDatabase(adminUrl, name), adminUrl, close: () => dropDatabase(adminUrl, name) };
}

/** Creates an account of a nats-server with JetStream. Its streams, consumers and subjects are isolated. */
export async function testNats(): Promise<{ url: string; close(): Promise<void> }> {
  const { url } = await (await servers()).nats();
  // Accounts are not reused, and their store is removed with the run, so there is nothing to clean.
  return { url, close: async () => {} };
}

/**
 * Creates a namespace of a Kubernetes API that serves the CRDs, and a cluster administrator's kubeconfig that
 * selects it. No controllers run: owner references collect nothing, and a deleted namespace stays Terminating.
 */
export async function testKube(): Promise<{
  kubeconfigPath: string;
  namespace: string;
  close(): Promise<void>;
}> {
  const { dir, kube } = await servers();
  const { kubeconfig } = await kube();
  const namespace = `test-${randomBytes(6).toString('hex')}`;
  const config = new KubeConfig();
  config.loadFromFile(kubeconfig);
  await KubernetesObjectApi.makeApiClient(config).create({
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name: namespace },
  });
  const folder = await mkdtemp(join(dir, 'kubeconfig-'));
  const kubeconfigPath = join(folder, 'kubeconfig');
  await kubeconfigFor({ text: await readFile(kubeconfig, 'utf8'), namespace, file: kubeconfigPath });
  return { kubeconfigPath, namespace, close: () => rm(folder, { recursive: true, force: true }) };
}

let own: Promise<TestServers> | undefined;

async function servers(): Promise<Omit<TestServers, 'close'>> {
  const socket = process.env.SEMBLANCE_TEST_SERVERS;
  if (socket) return remoteTestServers(socket);
  own ??= createTestServers();
  return own;
}
