import { join } from 'node:path';
import { type Exit, spawnGuarded } from '@semblance/common/process/child';
import { createGuard, type Guard } from '@semblance/common/process/guard';
import { type KubeOptions, kubeServices } from '@semblance/local/kube';
import { natsService, natsUrl } from '@semblance/local/nats';
import { postgresService, postgresUrl } from '@semblance/local/postgres';
import { freePort, isFree } from '@semblance/local/process/ports';
import { type ServiceSpec, untilReady } from '@semblance/local/process/service';
import postgres from 'postgres';

/** Starts servers of the local stack one by one, without its supervisor. */

export type RunningService = { pid: number; exited: Promise<Exit>; stop(): Promise<void> };

/**
 * Runs one service without supervision and resolves when it is ready. It ends with `stop()`, when `signal` aborts,
 * or with this process, whichever comes first.
 */
export async function startService(options: {
  spec: ServiceSpec;
  guard: Guard;
  logFile: string;
  signal?: AbortSignal;
}): Promise<RunningService> {
  const { spec, guard, logFile, signal = new AbortController().signal } = options;
  signal.throwIfAborted();
  const launch = await spec.launch(signal);
  const child = await spawnGuarded({ launch, guard, logFile, stopSignal: spec.stopSignal });
  try {
    await untilReady({ spec, child, logFile, signal });
  } catch (error) {
    await child.stop(spec.graceMs);
    throw error;
  }
  const stop = async () => {
    signal.removeEventListener('abort', onAbort);
    await child.stop(spec.graceMs);
  };
  const onAbort = () => void stop();
  signal.addEventListener('abort', onAbort, { once: true });
  return { pid: child.pid, exited: child.exited, stop };
}

/**
 * Starts a server on the given port, or on a port chosen here. A chosen port may be taken before the server
 * listens, by a process that ignores reservations; then it tries another one, three in all.
 *
 * @param start when it rejects, everything that it started must have ended
 */
export async function onFreePort<T>(
  given: number | undefined,
  start: (port: number) => Promise<T>,
): Promise<T> {
  if (given !== undefined) return start(given);
  for (let left = 3; ; left--) {
    const port = await freePort();
    try {
      return await start(port);
    } catch (error) {
      if (left === 1 || (await isFree(port))) throw error;
    }
  }
}

interface ServerOptions {
  /** Default: a free one. */
  port?: number;
  signal?: AbortSignal;
  durable?: boolean;
  /** Default: one that ends with the server. */
  guard?: Guard;
}

interface Server {
  stop(): Promise<void>;
}

/** Starts a server with a guard; one that is made here ends with the server. */
async function guarded<T extends Server>(
  given: Guard | undefined,
  start: (guard: Guard) => Promise<T>,
): Promise<T> {
  if (given) return start(given);
  const guard = createGuard();
  try {
    const server = await start(guard);
    const stop = async () => {
      await server.stop();
      await guard.close();
    };
    return { ...server, stop };
  } catch (error) {
    await guard.close();
    throw error;
  }
}

function startOn(
  { port: given, signal }: ServerOptions,
  guard: Guard,
  logFile: string,
  describe: (port: number) => ServiceSpec,
): Promise<RunningService & { port: number }> {
  return onFreePort(given, async (port) => ({
    ...(await startService({ spec: describe(port), guard, logFile, signal })),
    port,
  }));
}

/**
 * Starts a server and waits until it answers.
 *
 * @param options.dataDir folder of this server alone; kept when the server stops
 * @returns `url` of its `postgres` database as superuser, the pid of the postmaster, and `stop()`
 */
export function startPostgres(
  options: ServerOptions & { dataDir: string; maxConnections?: number },
): Promise<Server & { url: string; port: number; pid: number }> {
  const dir = options.dataDir;
  return guarded(options.guard, async (guard) => {
    const describe = (port: number) => postgresService({ ...options, dir, port, guard });
    const { pid, port, stop } = await startOn(options, guard, join(dir, 'postgres.log'), describe);
    return { url: postgresUrl(dir, port, 'postgres'), port, pid, stop };
  });
}

/** Drops a database and ends the sessions in it. A missing database is no error. */
export async function dropDatabase(adminUrl: string, name: string): Promise<void> {
  const sql = postgres(adminUrl, { max: 1, onnotice: () => {} });
  try {
    await sql`drop database if exists ${sql(name)} with (force)`;
  } finally {
    await sql.end({ timeout: 1 });
  }
}

/** Starts a server and waits until it answers; see `startPostgres`. */
export function startNats(
  options: ServerOptions & { binary: string; dir: string; accounts?: number },
): Promise<Server & { url: string; port: number; pid: number }> {
  const { dir } = options;
  return guarded(options.guard, async (guard) => {
    const describe = (port: number) => natsService({ ...options, port });
    const { pid, port, stop } = await startOn(options, guard, join(dir, 'nats.log'), describe);
    return { url: await natsUrl(dir, port), port, pid, stop };
  });
}

/** Starts both services and waits until `/readyz` answers ok; see `startPostgres`. */
export function startKube(
  options: ServerOptions & { binaries: KubeOptions['binaries']; dir: string; namespace?: string },
): Promise<Server & { kubeconfigPath: string; pids: Record<string, number> }> {
  return guarded(options.guard, async (guard) => {
    const { kubeconfig, ...rest } = await onFreePort(options.port, (port) =>
      startBoth({ ...options, port, guard }),
    );
    return { kubeconfigPath: kubeconfig, ...rest };
  });
}

async function startBoth(options: KubeOptions & { signal?: AbortSignal }) {
  const { dir, guard, signal } = options;
  const { services, kubeconfig, cleanUp } = kubeServices(options);
  const running: { pid: number; stop(): Promise<void> }[] = [];
  const pids: Record<string, number> = {};
  const stop = async () => {
    for (const service of running.toReversed()) await service.stop();
    await cleanUp();
  };
  try {
    for (const spec of services) {
      const service = await startService({ spec, guard, logFile: join(dir, `${spec.name}.log`), signal });
      running.push(service);
      pids[spec.name] = service.pid;
    }
  } catch (error) {
    await stop();
    throw error;
  }
  return { kubeconfig, pids, stop };
}
