import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { untilTrue } from '@semblance/testkit/control-plane/control-plane';
import { output, type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { testNats } from '@semblance/testkit/servers/shared';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { deliveryIdOf } from './deliveries.ts';
import { listDeliveries } from './list-deliveries.ts';

// The control plane runs as a process and is killed by kill -9 during an attempt at a delivery.
let db: TestDatabase;
let nats: Awaited<ReturnType<typeof testNats>>;
let dir: string;
beforeAll(async () => {
  [db, nats, dir] = await Promise.all([
    testDatabase(),
    testNats(),
    mkdtemp(join(tmpdir(), 'semblance-crash-')),
  ]);
  await writeFile(
    join(dir, 'kubeconfig'),
    JSON.stringify({
      clusters: [{ name: 'c', cluster: { server: 'https://127.0.0.1:1' } }],
      users: [{ name: 'u', user: { token: 't' } }],
      contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
      'current-context': 'x',
    }),
  );
});
afterAll(async () => {
  await db.close();
  await nats.close();
  await rm(dir, { recursive: true, force: true });
});

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

function startProcess(): ChildProcess {
  const child = spawn(process.execPath, [join(import.meta.dirname, '..', 'main.ts')], {
    stdio: 'ignore',
    env: {
      PATH: process.env.PATH,
      KUBECONFIG: join(dir, 'kubeconfig'),
      SEMBLANCE_POSTGRES_URL: db.url,
      SEMBLANCE_NATS_URL: nats.url,
      SEMBLANCE_OBJECTS_URL: `file://${dir}/objects`,
      SEMBLANCE_OBJECTS_SIGNING_KEY: '00'.repeat(16),
      SEMBLANCE_PUBLIC_URL: 'http://127.0.0.1:2',
      SEMBLANCE_ADMIN_TOKEN: '0123456789abcdef',
      SEMBLANCE_WEBHOOK_ALLOW: '127.0.0.0/8',
    },
  });
  closing.push(() => kill(child));
  return child;
}

async function kill(child: ChildProcess) {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGKILL');
  await gone;
}

/** Returns an endpoint that holds each call until it is told what to answer. */
async function endpoint() {
  const calls: { id: string; body: string; answer: (status: number) => void }[] = [];
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    const id = String(request.headers['service-delivery']);
    calls.push({ id, body, answer: (status) => void response.writeHead(status).end() });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closing.push(() => {
    server.closeAllConnections();
    return new Promise((resolve) => server.close(resolve));
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, calls };
}

/** Settles a job with the callback, which owes its delivery from that commit on. Returns the delivery's id. */
async function settledJob(callbackUrl: string): Promise<string> {
  const account = await db.account();
  const submission = account.submission({ callbackUrl });
  const { jobId } = await db.submitterWithWebhooks()(submission);
  await db.sql`select settle_job(${jobId}, null, ${db.sql.json(output())}::jsonb, null, null, null, null)`;
  return deliveryIdOf(jobId);
}

/** A process under `npm test` may take many seconds to start. */
const PATIENCE_MS = 60_000;
/**
 * Returns the sessions in which the record of an attempt waits for a lock. Other tests have databases of their own.
 */
const waiting = () => db.sql<{ pid: number }[]>`
  select pid from pg_stat_activity
  where datname = current_database() and wait_event_type = 'Lock' and query like '%update deliveries%'`;
const view = async (deliveryId: string) => (await listDeliveries(db.sql, { deliveryId }))[0];
/** Does what the lease of a dead process does by itself after half a minute. */
const endLease = (id: string) => db.sql`update deliveries set leased_until = now() where id = ${id}`;
const data = (body: string) => JSON.parse(body).data as unknown;

test('killed right after the commit that settled the job: the next process delivers', async () => {
  const { url, calls } = await endpoint();
  const first = startProcess();
  // This test's own sessions have another name.
  await untilTrue(
    async () =>
      (
        await db.sql`select 1 from pg_stat_activity
          where datname = current_database() and application_name = 'semblance-control-plane-chores'`
      ).length > 0,
    'it is up',
    PATIENCE_MS,
  );
  first.kill('SIGSTOP');
  const id = await settledJob(url);
  await kill(first);
  expect(calls).toHaveLength(0);
  startProcess();
  await untilTrue(() => calls.length === 1, 'it is delivered', PATIENCE_MS);
  calls[0]?.answer(200);
  await untilTrue(async () => (await view(id))?.state === 'delivered', 'it is recorded');
}, 180_000);

test('killed during an attempt, and after a 2xx that was not recorded: delivered again under the same id, with the same data', async () => {
  const { url, calls } = await endpoint();
  const id = await settledJob(url);
  const first = startProcess();
  await untilTrue(() => calls.length === 1, 'the first attempt has begun', PATIENCE_MS);
  await kill(first);
  expect(await view(id)).toMatchObject({ state: 'pending', attempts: [] });

  await endLease(id);
  const second = startProcess();
  await untilTrue(() => calls.length === 2, 'another process tries it', PATIENCE_MS);
  // The row is locked, so the answer arrives and its record cannot.
  await db.sql.begin(async (tx) => {
    await tx`select 1 from deliveries where id = ${id} for update`;
    calls[1]?.answer(200);
    await untilTrue(async () => (await waiting()).length > 0, 'the record waits');
    await kill(second);
    // The server has not noticed that its client is gone, and would still carry the statement out.
    for (const { pid } of await waiting()) await db.sql`select pg_terminate_backend(${pid})`;
    await untilTrue(async () => (await waiting()).length === 0, 'its session is gone');
  });
  expect(await view(id)).toMatchObject({ state: 'pending', attempts: [] });

  await endLease(id);
  startProcess();
  await untilTrue(() => calls.length === 3, 'a third process delivers', PATIENCE_MS);
  calls[2]?.answer(204);
  await untilTrue(async () => (await view(id))?.state === 'delivered', 'it is recorded');
  expect((await view(id))?.attempts).toMatchObject([{ status: 204 }]);
  expect(new Set(calls.map((call) => call.id))).toEqual(new Set([id]));
  for (const { body } of calls) expect(data(body)).toEqual(data(calls[0]?.body ?? '{}'));
}, 240_000);
