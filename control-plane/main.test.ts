import { type ChildProcess, spawn } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { freePort } from '@semblance/local/process/ports';
import { connectTo, untilTrue } from '@semblance/testkit/control-plane/control-plane';
import { testPostgres } from '@semblance/testkit/servers/shared';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { migrate, readMigrations } from './storage/migrate.ts';
import { openSql } from './storage/sql.ts';

/** A process may take many seconds to start. */
const PATIENCE_MS = 60_000;

let dir: string;
const NOWHERE = '127.0.0.1:1';

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'semblance-main-'));
  const kubeconfig = {
    clusters: [{ name: 'c', cluster: { server: `https://${NOWHERE}` } }],
    users: [{ name: 'u', user: { token: 't' } }],
    contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
    'current-context': 'x',
  };
  await writeFile(join(dir, 'kubeconfig'), JSON.stringify(kubeconfig));
});
afterAll(() => rm(dir, { recursive: true }));

const patientSql = (url: string) =>
  openSql({ url, maxConnections: 1, settings: {}, deadlineMs: 25_000, connectMs: 20_000 });

const children: ChildProcess[] = [];
afterEach(() => {
  for (const child of children.splice(0)) child.kill('SIGKILL');
});

/** Starts the control plane as a process; everything it needs is unreachable unless given. */
async function start(env: Record<string, string> = {}) {
  const port = await freePort();
  const child = spawn(process.execPath, [join(import.meta.dirname, 'main.ts')], {
    env: {
      PATH: process.env.PATH,
      KUBECONFIG: join(dir, 'kubeconfig'),
      SEMBLANCE_POSTGRES_URL: `postgres://a:b@${NOWHERE}/c`,
      SEMBLANCE_NATS_URL: `nats://${NOWHERE}`,
      SEMBLANCE_OBJECTS_URL: `file://${dir}/objects`,
      SEMBLANCE_OBJECTS_SIGNING_KEY: '00'.repeat(16),
      SEMBLANCE_PUBLIC_URL: 'http://127.0.0.1:2',
      SEMBLANCE_CONTROL_LISTEN: `127.0.0.1:${port}`,
      SEMBLANCE_ADMIN_TOKEN: '0123456789abcdef',
      ...env,
    },
  });
  children.push(child);
  let output = '';
  child.stdout.on('data', (chunk) => {
    output += chunk;
  });
  child.stderr.on('data', (chunk) => {
    output += chunk;
  });
  // Not 'exit', which may come before its last output.
  const exited = new Promise<number | null>((resolve) => child.once('close', (code) => resolve(code)));
  return { child, port, exited, output: () => output };
}

test('with everything it needs away it starts, stays, refuses calls in time, and ends when asked', async () => {
  const { child, port, exited, output } = await start();
  await untilTrue(() => output().includes('control plane is up'), 'it is up', PATIENCE_MS);
  const { control, ask } = connectTo(port, '');
  const began = Date.now();
  const call = ask(control.getPricing.bind(control), { caller: undefined }, { timeoutMs: PATIENCE_MS });
  await expect(call).rejects.toMatchObject({ code: 'internal_error' });
  expect(Date.now() - began).toBeLessThan(PATIENCE_MS / 2);
  control.close();
  expect(child.exitCode).toBeNull();
  child.kill('SIGTERM');
  expect(await exited).toBe(0);
});

test('two that start at once on an empty database bring its schema forward once, and both serve', async () => {
  const pg = await testPostgres();
  const both = await Promise.all([0, 1].map(() => start({ SEMBLANCE_POSTGRES_URL: pg.url })));
  for (const { port, output } of both) {
    const { control, ask } = connectTo(port, '');
    await untilTrue(
      () =>
        ask(control.getPricing.bind(control), { caller: undefined }).then(
          () => true,
          () => false,
        ),
      `it serves: ${output()}`,
      PATIENCE_MS,
    );
    control.close();
  }
  const migrated = both.filter(({ output }) => output().includes('migrated the database'));
  expect(migrated).toHaveLength(1);
  expect(both.map(({ child }) => child.exitCode)).toEqual([null, null]);
  const sql = patientSql(pg.url);
  const applied = await sql<{ name: string }[]>`select name from schema_migrations order by version`;
  expect(applied.map(({ name }) => name)).toEqual((await readMigrations()).map(({ name }) => name));
  await sql.end();
  for (const { child, exited } of both) {
    child.kill('SIGTERM');
    await exited;
  }
  await pg.close();
});

test('a database of a newer release ends it with the reason, unless that may be run behind', async () => {
  const pg = await testPostgres();
  await migrate(pg.url, await readMigrations());
  const known = (await readMigrations()).length;
  const sql = patientSql(pg.url);
  await sql`insert into schema_migrations (version, name, digest) values (${known + 1}, '0999-later.sql', 'x')`;
  const refused = await start({ SEMBLANCE_POSTGRES_URL: pg.url });
  expect(await refused.exited).toBe(1);
  expect(refused.output()).toContain('run the newer release');
  await sql`update schema_migrations set compatible_from = ${known} where version = ${known + 1}`;
  const { child, exited, output } = await start({ SEMBLANCE_POSTGRES_URL: pg.url });
  await untilTrue(() => output().includes('"ahead":["0999-later.sql"]'), 'it runs behind', PATIENCE_MS);
  expect(child.exitCode).toBeNull();
  child.kill('SIGTERM');
  expect(await exited).toBe(0);
  await sql.end();
  await pg.close();
});

test('a voice that is not usable ends it, with the file and the fault', async () => {
  const voices = join(dir, 'voices');
  await mkdir(voices);
  await writeFile(join(voices, 'loud.json'), JSON.stringify({ id: 'Loud', name: 'Loud' }));
  const { exited, output } = await start({ SEMBLANCE_VOICE_DIR: voices });
  expect(await exited).toBe(1);
  expect(output()).toContain(`${join(voices, 'loud.json')}: id: must be lower-case letters`);
  expect(output()).toContain(`${join(voices, 'loud.json')}: description: `);
});

test('an issuer without an audience or roles ends it', async () => {
  const { exited, output } = await start({ SEMBLANCE_OIDC_ISSUER: 'https://login.example.com' });
  expect(await exited).toBe(1);
  expect(output()).toContain('SEMBLANCE_OIDC_ISSUER needs SEMBLANCE_OIDC_AUDIENCE and SEMBLANCE_OIDC_ROLES');
});

test('settings that are not usable are named, without their values', async () => {
  const { exited, output } = await start({
    SEMBLANCE_ADMIN_TOKEN: 'short',
    SEMBLANCE_WEBHOOK_ALLOW: 'everything',
    SEMBLANCE_WEBHOOK_DENY: '10.0.0.0/8,10.1.0.0',
    SEMBLANCE_OIDC_ISSUER: 'http://login.example.com',
    SEMBLANCE_OIDC_ROLES: 'admin=everybody',
  });
  expect(await exited).toBe(1);
  expect(output()).toContain('SEMBLANCE_ADMIN_TOKEN');
  expect(output()).toContain('SEMBLANCE_WEBHOOK_ALLOW');
  expect(output()).toContain('SEMBLANCE_WEBHOOK_DENY');
  expect(output()).toContain('SEMBLANCE_OIDC_ISSUER');
  expect(output()).toContain('SEMBLANCE_OIDC_ROLES');
  expect(output()).not.toContain('short');
});
