import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { natsConfiguration } from '@semblance/local/nats';
import { httpGet } from '@semblance/local/process/http-get';
import postgres from 'postgres';

/*
 * Where a Docker engine answers, PostgreSQL runs in a container, otherwise the embedded server runs.
 * SEMBLANCE_TEST_CONTAINERS changes that: with `never` Docker is not used; with `required` PostgreSQL and NATS must
 * run in containers, or the run fails.
 */
const POSTGRES_IMAGE = process.env.SEMBLANCE_TEST_POSTGRES_IMAGE || 'postgres:18-alpine';
const NATS_IMAGE = process.env.SEMBLANCE_TEST_NATS_IMAGE || 'nats:2-alpine';

/** Returns whether tests must use servers in containers. */
export function containersRequired(): boolean {
  return process.env.SEMBLANCE_TEST_CONTAINERS === 'required';
}

/** Starts PostgreSQL in a container; undefined when no engine answers or none can get the image. */
export async function postgresContainer(): Promise<
  { url: string; stop: () => Promise<unknown> } | undefined
> {
  if (process.env.SEMBLANCE_TEST_CONTAINERS === 'never') return undefined;
  if (!containersRequired() && !(await dockerAnswers())) return undefined;
  try {
    const { PostgreSqlContainer } = await import('@testcontainers/postgresql');
    const { Wait } = await import('testcontainers');
    const container = await new PostgreSqlContainer(POSTGRES_IMAGE)
      .withCommand(['postgres', '-c', 'fsync=off', '-c', 'max_connections=400'])
      // The image's health check needs systemd under podman, so the open port is the condition.
      .withWaitStrategy(Wait.forListeningPorts())
      .start();
    const url = container.getConnectionUri();
    await untilItAnswers(url);
    return { url, stop: () => container.stop() };
  } catch (error) {
    if (containersRequired()) throw error;
    const why = error instanceof Error ? error.message : String(error);
    process.stderr.write(
      `Docker answers, but ${POSTGRES_IMAGE} does not start (${why}): the embedded one is used.\n`,
    );
    return undefined;
  }
}

/** Starts nats-server with JetStream in a container, with isolated accounts. */
export async function natsContainer(
  accounts: number,
): Promise<{ accountUrl: (account: number) => string; stop: () => Promise<unknown> }> {
  const { GenericContainer, Wait } = await import('testcontainers');
  const password = `p${randomBytes(24).toString('hex')}`;
  const content = natsConfiguration({
    listen: '0.0.0.0:4222',
    storeDir: '/data',
    password,
    accounts,
    durable: false,
  });
  const container = await new GenericContainer(NATS_IMAGE)
    .withCopyContentToContainer([{ content, target: '/etc/nats.conf' }])
    .withCommand(['--config', '/etc/nats.conf'])
    .withExposedPorts(4222)
    .withWaitStrategy(Wait.forLogMessage('Server is ready'))
    .start();
  const place = `${container.getHost()}:${container.getMappedPort(4222)}`;
  return {
    accountUrl: (account) => `nats://u${account}:${password}@${place}`,
    stop: () => container.stop(),
  };
}

/** The port opens before the server has recovered and accepts sessions. */
async function untilItAnswers(url: string): Promise<void> {
  const sql = postgres(url, { max: 1, connect_timeout: 5, onnotice: () => {} });
  try {
    for (let attempt = 0; ; attempt++) {
      try {
        await sql`select 1`;
        return;
      } catch (error) {
        if (attempt >= 120) throw error;
        await delay(250);
      }
    }
  } finally {
    await sql.end({ timeout: 1 });
  }
}

async function dockerAnswers(): Promise<boolean> {
  const sockets = ['/var/run/docker.sock', join(homedir(), '.docker/run/docker.sock')];
  const host = process.env.DOCKER_HOST;
  if (host?.startsWith('unix://')) sockets.unshift(host.slice('unix://'.length));
  for (const socketPath of sockets.filter((path) => existsSync(path))) {
    try {
      await httpGet({ socketPath, path: '/_ping', signal: AbortSignal.timeout(2_000) });
      return true;
    } catch {
      // The server does not listen yet.
    }
  }
  return host?.startsWith('tcp://') ?? false;
}
