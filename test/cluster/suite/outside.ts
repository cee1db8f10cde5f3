import { randomBytes } from 'node:crypto';
import { chown, mkdir, mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { type AddressInfo, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createServer } from 'node:tls';
import { S3Client } from '@aws-sdk/client-s3';
import { type Authority, createAuthority } from '@semblance/common/grpc/tls/authority';
import { createGuard } from '@semblance/common/process/guard';
import { natsService } from '@semblance/local/nats';
import { freePort } from '@semblance/local/process/ports';
import { resolveTools } from '@semblance/local/toolchain/toolchain';
import { startTcpProxy, type TcpProxy } from '@semblance/testkit/common/tcp-proxy';
import { S3_CREDENTIALS, startS3Server } from '@semblance/testkit/objects/s3-server';
import { startPostgres, startService } from '@semblance/testkit/servers/start';
import postgres from 'postgres';

/** A server that Pods reach at this machine's address, only over TLS, through a relay that can be told to fail. */
export type Server = { readonly port: number; readonly relay: TcpProxy };

/** PostgreSQL, NATS and S3 as somebody else runs them: outside the cluster, with their own authority. */
export type Outside = {
  /** PEM of the authority that issued all three certificates. */
  readonly authority: string;
  readonly postgres: Server & { readonly sql: postgres.Sql; readonly password: string };
  readonly nats: Server & { readonly token: string };
  readonly s3: Server & { readonly client: S3Client; readonly credentials: typeof S3_CREDENTIALS };
  close(): Promise<void>;
};

export const DATABASE = 'media';

/**
 * @param listen address of this machine
 * @param nameOf returns the name by which Pods know a server
 */
export async function startOutside(listen: string, nameOf: (server: string) => string): Promise<Outside> {
  const folder = await mkdtemp(join(tmpdir(), 'semblance-outside-'));
  const guard = createGuard();
  await guard.removeOnDeath(folder);
  const closing: (() => Promise<unknown>)[] = [];
  const close = async () => {
    for (const end of closing.reverse()) await end();
    await guard.close();
    await rm(folder, { recursive: true, force: true });
  };
  const published = async (port: number): Promise<Server> => {
    const relay = await startTcpProxy({ port, listen });
    closing.push(() => relay.close());
    return { port: relay.port, relay };
  };
  try {
    const authority = await createAuthority();
    const issue = (server: string) => authority.issue({ names: [nameOf(server), listen] });
    const database = await startDatabase(join(folder, 'postgres'), await issue('postgres'), guard);
    closing.push(database.stop);
    const nats = await startNats(join(folder, 'nats'), await issue('nats'), guard);
    closing.push(nats.stop);
    const s3 = await startS3Server();
    closing.push(s3.stop);
    const client = new S3Client({
      region: 'us-east-1',
      endpoint: s3.endpoint,
      forcePathStyle: true,
      credentials: S3_CREDENTIALS,
    });
    closing.push(async () => client.destroy());
    const secure = await overTls(Number(new URL(s3.endpoint).port), await issue('s3'));
    closing.push(secure.close);
    return {
      authority: authority.pem,
      postgres: { ...(await published(database.port)), sql: database.sql, password: database.password },
      nats: { ...(await published(nats.port)), token: nats.token },
      s3: { ...(await published(secure.port)), client, credentials: S3_CREDENTIALS },
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

type Files = Awaited<ReturnType<Authority['issue']>>;
type Guard = ReturnType<typeof createGuard>;

/**
 * Starts PostgreSQL with a database for a role that is not a superuser. Others connect only over TLS and with a
 * password.
 */
async function startDatabase(dir: string, files: Files, guard: Guard) {
  const server = await startPostgres({ dataDir: dir, durable: false, guard });
  const data = join(dir, 'data');
  // The server may run as another user, who then owns the folder of data.
  const { uid, gid } = await stat(data);
  for (const [name, text] of [
    ['server.crt', files.certificate],
    ['server.key', files.key],
    [
      'pg_hba.conf',
      'local all all scram-sha-256\nhost all semblance all scram-sha-256\nhostssl all all all scram-sha-256\n',
    ],
  ] as const) {
    await writeFile(join(data, name), text, { mode: 0o600 });
    await chown(join(data, name), uid, gid);
  }
  const sql = postgres(server.url, { max: 2, onnotice: () => {} });
  const password = randomBytes(16).toString('hex');
  await sql`alter system set ssl = on`;
  await sql`select pg_reload_conf()`;
  await sql.unsafe(`create role ${DATABASE} login password '${password}'`);
  await sql.unsafe(`create database ${DATABASE} owner ${DATABASE}`);
  await sql.end();
  const url = new URL(server.url);
  url.pathname = `/${DATABASE}`;
  // Connection of the server's owner, to look at the state of the server.
  const own = postgres(url.href, { max: 1, onnotice: () => {} });
  return {
    port: server.port,
    password,
    sql: own,
    async stop() {
      await own.end();
      await server.stop();
    },
  };
}

async function startNats(dir: string, files: Files, guard: Guard) {
  const binary = (await resolveTools(['nats-server']))['nats-server'];
  const token = randomBytes(16).toString('hex');
  const port = await freePort();
  await mkdir(dir, { recursive: true });
  const file = (name: string) => join(dir, name);
  await writeFile(file('nats.crt'), files.certificate);
  await writeFile(file('nats.key'), files.key, { mode: 0o600 });
  const lines = [
    `listen: "127.0.0.1:${port}"`,
    `jetstream { store_dir: "${file('store')}" }`,
    `authorization { token: "t${token}" }`,
    `tls { cert_file: "${file('nats.crt')}", key_file: "${file('nats.key')}" }`,
  ];
  await writeFile(file('nats.conf'), `${lines.join('\n')}\n`);
  const launch = async () => ({ command: binary, args: ['--config', file('nats.conf')] });
  const spec = { ...natsService({ binary, dir, port }), launch };
  const server = await startService({ spec, guard, logFile: file('nats.log') });
  return { port, token: `t${token}`, stop: () => server.stop() };
}

/** Accepts TLS and forwards the plain traffic to a port of this machine. */
async function overTls(to: number, files: Files): Promise<{ port: number; close(): Promise<void> }> {
  const sockets = new Set<{ destroy(): void }>();
  const server = createServer({ cert: files.certificate, key: files.key }, (near) => {
    const far = connect(to, '127.0.0.1');
    for (const [from, other] of [
      [near, far],
      [far, near],
    ] as const) {
      sockets.add(from);
      from.on('error', () => other.destroy()).on('close', () => sockets.delete(from));
      from.pipe(other);
    }
  });
  server.on('tlsClientError', () => {});
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    close: () =>
      new Promise((resolve) => {
        for (const socket of sockets) socket.destroy();
        server.close(() => resolve());
      }),
  };
}
