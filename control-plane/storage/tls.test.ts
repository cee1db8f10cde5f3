import { chown, mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { loadConfig } from '@semblance/common/config';
import { createAuthority } from '@semblance/common/grpc/tls/authority';
import { createGuard } from '@semblance/common/process/guard';
import { PATIENT } from '@semblance/testkit/control-plane/storage';
import { startPostgres } from '@semblance/testkit/servers/start';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { controlPlaneShape } from '../config.ts';
import { openDatabase } from './database.ts';

/** Folder of a real server with TLS, whose certificate is for its address and from an unknown authority. */
let folder: string;
let server: Awaited<ReturnType<typeof startPostgres>>;
const guard = createGuard();
const file = (name: string) => join(folder, name);

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'semblance-postgres-tls-'));
  server = await startPostgres({ dataDir: folder, durable: false, guard });
  const authority = await createAuthority();
  await writeFile(file('ca.crt'), authority.pem);
  await writeFile(file('other.crt'), (await createAuthority()).pem);
  const { certificate, key } = await authority.issue({ names: ['127.0.0.1'] });
  // The server may run as another user, who owns its data folder.
  const { uid, gid } = await stat(file('data'));
  for (const [name, text] of [
    ['server.crt', certificate],
    ['server.key', key],
  ] as const) {
    await writeFile(file(`data/${name}`), text, { mode: 0o600 });
    await chown(file(`data/${name}`), uid, gid);
  }
  const admin = openDatabase({ url: server.url, ...PATIENT });
  await admin.sql`alter system set ssl = on`;
  await admin.sql`select pg_reload_conf()`;
  await admin.close();
});
afterAll(async () => {
  await server?.stop();
  await guard.close();
  await rm(folder, { recursive: true });
});

const urlWith = (mode: string, name: string, host = '127.0.0.1') =>
  `${server.url.replace('127.0.0.1', host)}?sslmode=${mode}&sslrootcert=${file(name)}`;

async function encrypted(url: string): Promise<unknown> {
  const database = openDatabase({ url, ...PATIENT });
  try {
    const [row] = await database.sql`select ssl from pg_stat_ssl where pid = pg_backend_pid()`;
    return row?.ssl;
  } finally {
    await database.close();
  }
}

test('the server is spoken to over TLS when its certificate is of the authority named and for its name', async () => {
  // A reloaded setting reaches the postmaster a moment later.
  await expect.poll(() => encrypted(urlWith('verify-full', 'ca.crt')).catch(() => false)).toBe(true);
});

test.each([
  ['of another authority', () => urlWith('verify-full', 'other.crt'), /self-signed|unable to/],
  ['for another name', () => urlWith('verify-full', 'ca.crt', 'localhost'), /altnames/],
])('a server whose certificate is %s is given no password', async (_what, url, why) => {
  const failure = await encrypted(url()).then(
    (ssl) => expect.fail(`was connected: ${ssl}`),
    (error: Error) => error,
  );
  expect(String(failure.cause)).toMatch(why);
});

test('an authority that cannot be read ends the start, and is said', () => {
  const env = {
    SEMBLANCE_NATS_URL: 'nats://h:1',
    SEMBLANCE_ADMIN_TOKEN: 'x'.repeat(16),
    SEMBLANCE_OBJECTS_URL: 'file:///o',
    SEMBLANCE_PUBLIC_URL: 'http://h',
  };
  const url = (name: string) => ({ ...env, SEMBLANCE_POSTGRES_URL: urlWith('verify-full', name) });
  expect(loadConfig(controlPlaneShape, url('ca.crt')).SEMBLANCE_POSTGRES_URL).toContain('ca.crt');
  expect(() => loadConfig(controlPlaneShape, url('none.crt'))).toThrow(
    /SEMBLANCE_POSTGRES_URL: names a cert/,
  );
  const nats = { ...url('ca.crt'), SEMBLANCE_NATS_CA: file('none.crt') };
  expect(() => loadConfig(controlPlaneShape, nats)).toThrow(/SEMBLANCE_NATS_CA: is no file/);
});
