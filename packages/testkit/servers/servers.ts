import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { createGuard, type Guard } from '@semblance/common/process/guard';
import { applyCrds } from '@semblance/local/crds';
import { httpGet } from '@semblance/local/process/http-get';
import { progressPrinter } from '@semblance/local/toolchain/progress';
import { resolveTools } from '@semblance/local/toolchain/toolchain';
import { containersRequired, natsContainer, postgresContainer } from './containers.ts';
import { startKube, startNats, startPostgres } from './start.ts';

/** Accounts per nats-server. Each test gets one; when all are used, another server is started. */
const NATS_ACCOUNTS = 100;

/** Answer of the broker. */
export type PostgresGrant = { adminUrl: string; engine: 'embedded' | 'container' };
export type NatsGrant = { url: string };
export type KubeGrant = { kubeconfig: string };

/**
 * Real servers that all tests of a run share. Each is started on first use. `close()` or the end of this process
 * ends all of them and removes their folder.
 */
export type TestServers = {
  /** Folder of this run; it is removed with the run. */
  dir: string;
  postgres(): Promise<PostgresGrant>;
  nats(): Promise<NatsGrant>;
  kube(): Promise<KubeGrant>;
  close(): Promise<void>;
};

export async function createTestServers(): Promise<TestServers> {
  const dir = await mkdtemp(join(tmpdir(), 'semblance-test-'));
  const guard = createGuard();
  await guard.removeOnDeath(dir);
  const closing: (() => Promise<unknown>)[] = [];
  const report = progressPrinter(process.stderr);

  const postgres = once(async (): Promise<PostgresGrant> => {
    const container = await postgresContainer();
    if (container) {
      closing.push(container.stop);
      return { adminUrl: container.url, engine: 'container' };
    }
    const server = await startPostgres({
      dataDir: join(dir, 'postgres'),
      durable: false,
      maxConnections: 400,
      guard,
    });
    closing.push(server.stop);
    return { adminUrl: server.url, engine: 'embedded' };
  });

  type TestNats = Promise<(account: number) => string | Promise<string>>;
  let granted = 0;
  let server: TestNats | undefined;
  const nats = async (): Promise<NatsGrant> => {
    const number = granted++;
    const account = number % NATS_ACCOUNTS;
    const folder = join(dir, `nats-${Math.floor(number / NATS_ACCOUNTS)}`);
    if (account === 0) server = startTestNats(folder, guard);
    return { url: await (await (server as TestNats))(account) };
  };
  const startTestNats = async (folder: string, guard: Guard): TestNats => {
    if (containersRequired()) {
      const container = await natsContainer(NATS_ACCOUNTS);
      closing.push(container.stop);
      return container.accountUrl;
    }
    const tools = await resolveTools(['nats-server'], { report });
    const started = await startNats({
      binary: tools['nats-server'],
      dir: folder,
      accounts: NATS_ACCOUNTS,
      durable: false,
      guard,
    });
    closing.push(started.stop);
    return (account) => {
      const url = new URL(started.url);
      url.username = `u${account}`;
      return url.href;
    };
  };

  const kube = once(async (): Promise<KubeGrant> => {
    let kubeconfig = process.env.KUBECONFIG;
    if (process.env.USE_EXISTING_CLUSTER !== 'true' || !kubeconfig) {
      const binaries = await resolveTools(['etcd', 'kube-apiserver'], { report });
      const started = await startKube({ binaries, dir: join(dir, 'kube'), durable: false, guard });
      closing.push(started.stop);
      kubeconfig = started.kubeconfigPath;
    }
    await applyCrds({ kubeconfig });
    return { kubeconfig };
  });

  return {
    dir,
    postgres,
    nats,
    kube,
    async close() {
      await Promise.allSettled(closing.map((stop) => stop()));
      await rm(dir, { recursive: true, force: true });
      await guard.close();
    },
  };
}

/** Serves the test servers to the workers of a run, on a Unix socket in the run's folder. */
export async function serveTestServers(
  servers: TestServers,
): Promise<{ socket: string; close(): Promise<void> }> {
  const socket = join(servers.dir, 'broker.sock');
  const routes: Record<string, () => Promise<unknown>> = {
    '/postgres': servers.postgres,
    '/nats': servers.nats,
    '/kube': servers.kube,
  };
  const http: Server = createServer((request, response) => {
    const route = routes[request.url ?? ''];
    if (!route) return void response.writeHead(404).end('no such server\n');
    route().then(
      (grant) => response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(grant)),
      (error: unknown) => response.writeHead(500).end(error instanceof Error ? error.message : String(error)),
    );
  });
  // The first build of the tools takes minutes.
  http.requestTimeout = 0;
  await new Promise<void>((resolve, reject) => {
    http.once('error', reject);
    http.listen(socket, resolve);
  });
  return {
    socket,
    close: () =>
      new Promise((resolve) => {
        http.close(() => resolve());
        http.closeAllConnections();
      }),
  };
}

/** Returns the same servers through the socket of the process that runs them. */
export function remoteTestServers(socket: string): Omit<TestServers, 'close'> {
  const ask = async <T>(path: string): Promise<T> =>
    JSON.parse(await httpGet({ socketPath: socket, path })) as T;
  return {
    dir: dirname(socket),
    postgres: () => ask<PostgresGrant>('/postgres'),
    nats: () => ask<NatsGrant>('/nats'),
    kube: () => ask<KubeGrant>('/kube'),
  };
}

/** Runs a function once and shares its result. A failure is not kept, so the next caller tries again. */
function once<T>(start: () => Promise<T>): () => Promise<T> {
  let result: Promise<T> | undefined;
  return () => {
    result ??= start().catch((error) => {
      result = undefined;
      throw error;
    });
    return result;
  };
}

/** Writes a copy of a kubeconfig that selects another namespace. */
export async function kubeconfigFor(options: {
  text: string;
  namespace: string;
  file: string;
}): Promise<void> {
  const { parse, stringify } = await import('yaml');
  const config = parse(options.text) as {
    'current-context': string;
    contexts: { name: string; context: { namespace?: string } }[];
  };
  const current = config.contexts.find(({ name }) => name === config['current-context']);
  if (!current) throw new Error('the kubeconfig has no current context');
  current.context.namespace = options.namespace;
  await writeFile(options.file, stringify(config), { mode: 0o600 });
}
