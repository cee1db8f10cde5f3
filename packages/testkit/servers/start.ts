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

/**
 * Starts a server and waits until it answers.
 *
 * @param options.dataDir folder of this server alone; kept when the server stops
 * @param options.port default: a free one
 * @returns `url` of its `postgres` database as superuser, the pid of the postmaster, and `stop()`
 */
export async function startPostgres(options: {
  dataDir: string;
  port?: number;
  signal?: AbortSignal;
  durable?: boolean;
  maxConnections?: number;
  guard?: Guard;
}): Promise<{ url: string; port: number; pid: number; stop(): Promise<void> }> {
  const guard = options.guard ?? createGuard();
  const dir = options.dataDir;
  try {
    const { service, port } = await onFreePort(options.port, async (port) => {
      const spec = postgresService({ ...options, dir, port, guard });
      const logFile = join(dir, 'postgres.log');
      return { service: await startService({ spec, guard, logFile, signal: options.signal }), port };
    });
    return {
      url: postgresUrl(dir, port, 'postgres'),
      port,
      pid: service.pid,
      async stop() {
        await service.stop();
        if (!options.guard) await guard.close();
      },
    };
  } catch (error) {
    if (!options.guard) await guard.close();
    throw error;
  }
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
export async function startNats(options: {
  binary: string;
  dir: string;
  port?: number;
  signal?: AbortSignal;
  durable?: boolean;
  accounts?: number;
  guard?: Guard;
}): Promise<{ url: string; port: number; pid: number; stop(): Promise<void> }> {
  const guard = options.guard ?? createGuard();
  try {
    const { service, port } = await onFreePort(options.port, async (port) => {
      const spec = natsService({ ...options, port });
      const logFile = join(options.dir, 'nats.log');
      return { service: await startService({ spec, guard, logFile, signal: options.signal }), port };
    });
    return {
      url: await natsUrl(options.dir, port),
      port,
      pid: service.pid,
      async stop() {
        await service.stop();
        if (!options.guard) await guard.close();
      },
    };
  } catch (error) {
    if (!options.guard) await guard.close();
    throw error;
  }
}

/** Starts both services and waits until `/readyz` answers ok; see `startPostgres`. */
export async function startKube(options: {
  binaries: KubeOptions['binaries'];
  dir: string;
  port?: number;
  namespace?: string;
  durable?: boolean;
  signal?: AbortSignal;
  guard?: Guard;
}): Promise<{ kubeconfigPath: string; pids: Record<string, number>; stop(): Promise<void> }> {
  const guard = options.guard ?? createGuard();
  const done = async () => {
    if (!options.guard) await guard.close();
  };
  try {
    const { kubeconfig, pids, stop } = await onFreePort(options.port, (port) =>
      startBoth({ ...options, port, guard }),
    );
    return {
      kubeconfigPath: kubeconfig,
      pids,
      async stop() {
        await stop();
        await done();
      },
    };
  } catch (error) {
    await done();
    throw error;
  }
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
