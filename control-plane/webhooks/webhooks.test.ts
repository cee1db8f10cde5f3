import { createHmac } from 'node:crypto';
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { jobRecord } from '@semblance/common/job-record';
import {
  makeAccount,
  photoSwap,
  setStatus,
  startTestSystem,
  succeed,
  type TestSystem,
  untilJob,
  untilRenderJob,
  untilTrue,
  upload,
} from '@semblance/testkit/control-plane/control-plane';
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { webhookBackoff } from './worker.ts';

/** Long enough for an endpoint on a machine that stands still for seconds. */
const TIMEOUT_MS = 8_000;

let system: TestSystem;
beforeAll(async () => {
  system = await startTestSystem({
    webhooks: { allow: ['127.0.0.0/8'], timeoutMs: TIMEOUT_MS, pollMs: 30, backoffMs: () => 40 },
  });
});
afterAll(() => system.close());

interface Received {
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}
const servers: Server[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

/**
 * Returns an endpoint that answers each call with the next status; 0 hangs. The last status is for all later calls.
 */
async function endpoint(...statuses: number[]) {
  const received: Received[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const status = statuses[Math.min(received.length, statuses.length - 1)];
    received.push({ headers: request.headers, body: Buffer.concat(chunks).toString() });
    if (status) response.writeHead(status).end();
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`, received };
}

async function finishedJob(
  account: Awaited<ReturnType<typeof makeAccount>>,
  callbackUrl: string,
  { works = true, at = system } = {},
) {
  const { control, ask } = at.client;
  const { fileKey } = await upload(at, account.caller);
  const { id } = await ask(control.submitJob.bind(control), {
    ...photoSwap(account.caller, fileKey),
    callbackUrl,
  });
  const renderJob = await untilRenderJob(at, id);
  if (works) await succeed(at, renderJob);
  else
    await setStatus(at, renderJob, {
      phase: 'Failed',
      failure: { code: 'face_not_detected', message: 'No face was found.' },
    });
  return id;
}

const deliveries = async (accountId: string, at = system) => {
  const { admin, asAdmin } = at.client;
  return (await asAdmin(admin.listDeliveries.bind(admin), { accountId, limit: 0 })).deliveries;
};
const secretsOf = async (accountId: string) => {
  const { admin, asAdmin } = system.client;
  return asAdmin(admin.showSecret.bind(admin), { accountId });
};
const rotate = async (accountId: string, now = false) => {
  const { admin, asAdmin } = system.client;
  return (await asAdmin(admin.rotateSecret.bind(admin), { accountId, now })).secret;
};
const promote = async (accountId: string) => {
  const { admin, asAdmin } = system.client;
  return (await asAdmin(admin.promoteSecret.bind(admin), { accountId })).secret;
};
/** Returns whether the header has the form of the specification, and signs the body with the secret. */
const signs = ({ headers, body }: Received, secret: string, header = 'service-signature') => {
  const [, t, v1] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(String(headers[header])) ?? [];
  return v1 === createHmac('sha256', secret).update(`${t}.${body}`).digest('hex');
};

test('a finished job is POSTed, signed, with the very record that a read answers', async () => {
  const account = await makeAccount(system);
  const { secret } = await secretsOf(account.accountId);
  expect(await secretsOf(account.accountId)).toEqual({ secret, next: undefined });
  const { url, received } = await endpoint(200);
  const id = await finishedJob(account, url);
  await untilTrue(() => received.length === 1, 'it is delivered');
  const [{ headers, body } = { headers: {}, body: '' }] = received;
  const { event, sent_at, delivery_id } = JSON.parse(body);
  const job = await untilJob(system, account.caller, id, ({ status }) => status === 'succeeded');
  expect(body).toBe(JSON.stringify({ event: 'job.succeeded', sent_at, delivery_id, data: jobRecord(job) }));
  expect(headers).toMatchObject({
    'content-type': 'application/json',
    'service-event': event,
    'service-delivery': delivery_id,
  });
  const [, t, v1] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(String(headers['service-signature'])) ?? [];
  expect(v1).toBe(createHmac('sha256', secret).update(`${t}.${body}`).digest('hex'));
  expect(Math.abs(Number(t) - Date.now() / 1000)).toBeLessThan(60);
  expect(new Date(sent_at).toISOString()).toBe(sent_at);
  await untilTrue(
    async () => (await deliveries(account.accountId))[0]?.state === 'delivered',
    'it is recorded',
  );
  await delay(150);
  expect(received).toHaveLength(1);
});

test('a failure is delivered too, signed for an account that never asked for its secret', async () => {
  const account = await makeAccount(system);
  const { url, received } = await endpoint(204);
  await finishedJob(account, url, { works: false });
  await untilTrue(() => received.length === 1, 'it is delivered');
  expect(received[0]?.headers).toMatchObject({ 'service-event': 'job.failed' });
  const { secret } = await secretsOf(account.accountId);
  expect(signs(received[0] as Received, secret)).toBe(true);
  expect(JSON.parse(received[0]?.body ?? '{}').data).toMatchObject({
    status: 'failed',
    charged_usd: 0,
    output_url: null,
    error: { code: 'face_not_detected', message: 'No face was found.' },
  });
});

test('the next secret signs in a header of its own, until it is promoted and alone', async () => {
  const account = await makeAccount(system);
  const { accountId } = account;
  const next = await rotate(accountId);
  const { secret: old } = await secretsOf(accountId);
  expect(await secretsOf(accountId)).toEqual({ secret: old, next });
  const { url, received } = await endpoint(200);
  const deliver = async (n: number) => {
    await finishedJob(account, url);
    await untilTrue(() => received.length === n, 'it is delivered');
    return received[n - 1] as Received;
  };
  const first = await deliver(1);
  expect([signs(first, old), signs(first, next, 'service-signature-next')]).toEqual([true, true]);
  expect(String(first.headers['webhook-signature']).split(' ')).toHaveLength(2);
  expect(await promote(accountId)).toBe(next);
  const second = await deliver(2);
  expect(signs(second, next)).toBe(true);
  expect(second.headers).not.toHaveProperty('service-signature-next');
  expect(String(second.headers['webhook-signature'])).toMatch(/^v1,\S+$/);
  await rotate(accountId);
  const now = await rotate(accountId, true);
  const third = await deliver(3);
  expect(signs(third, now)).toBe(true);
  expect(third.headers).not.toHaveProperty('service-signature-next');
});

test('rotations and promotions at once leave one secret that signs', async () => {
  const { accountId } = await makeAccount(system);
  await Promise.allSettled(
    Array.from({ length: 30 }, (_, i) =>
      i % 3 === 0 ? rotate(accountId) : i % 3 === 1 ? promote(accountId) : rotate(accountId, true),
    ),
  );
  const { sql } = system.database;
  const valid = await sql<{ secret: string }[]>`
    select secret from webhook_secrets where account_id = ${accountId} and (retires_at is null or retires_at > now())`;
  expect(valid.map(({ secret }) => secret)).toEqual([(await secretsOf(accountId)).secret]);
});

test('many first submits at once make one secret', async () => {
  const account = await makeAccount(system, 100);
  const { control, ask } = system.client;
  const { fileKey } = await upload(system, account.caller);
  await Promise.all(
    Array.from({ length: 30 }, () =>
      ask(control.submitJob.bind(control), {
        ...photoSwap(account.caller, fileKey),
        callbackUrl: 'http://127.0.0.1:1/hook',
      }),
    ),
  );
  const made = await system.database
    .sql`select 1 from webhook_secrets where account_id = ${account.accountId}`;
  expect(made).toHaveLength(1);
});

test('a delivery is tried again under the same id until it is taken', async () => {
  const account = await makeAccount(system);
  const { url, received } = await endpoint(500, 0, 302, 200);
  await finishedJob(account, url);
  await untilTrue(
    async () => (await deliveries(account.accountId))[0]?.state === 'delivered',
    'it is delivered',
    40_000,
  );
  expect(new Set(received.map(({ headers }) => headers['service-delivery'])).size).toBe(1);
  const [delivery] = await deliveries(account.accountId);
  expect(delivery?.attempts.map(({ status, error }) => [status, error])).toEqual([
    [500, 'answered 500'],
    [undefined, `no answer within ${TIMEOUT_MS} ms`],
    [302, 'answered 302'],
    [200, undefined],
  ]);
});

test('after six attempts it is abandoned; the result stays; a replay delivers it', async () => {
  const account = await makeAccount(system);
  const { url, received } = await endpoint(500, 500, 500, 500, 500, 500, 200);
  const id = await finishedJob(account, url);
  await untilTrue(
    async () => (await deliveries(account.accountId))[0]?.state === 'abandoned',
    'it is abandoned',
  );
  await delay(150);
  expect(received).toHaveLength(6);
  expect((await untilJob(system, account.caller, id, () => true)).outputUrl).toBeDefined();
  const { admin, asAdmin } = system.client;
  const [delivery] = await deliveries(account.accountId);
  await asAdmin(admin.replayDelivery.bind(admin), { deliveryId: delivery?.deliveryId ?? '' });
  await untilTrue(
    async () => (await deliveries(account.accountId))[0]?.state === 'delivered',
    'it is delivered',
  );
  expect(received).toHaveLength(7);
  await expect(asAdmin(admin.replayDelivery.bind(admin), { deliveryId: 'dlv-none' })).rejects.toMatchObject({
    code: 'not_found',
  });
});

test('an endpoint that hangs does not delay another', async () => {
  // Longer limits than this test may take on any machine.
  const webhooks = { allow: ['127.0.0.0/8'], timeoutMs: 600_000, pollMs: 30, backoffMs: () => 40 };
  const at = await startTestSystem({ webhooks });
  try {
    const account = await makeAccount(at, 100);
    const [slow, quick] = [await endpoint(0), await endpoint(200)];
    await Promise.all(Array.from({ length: 24 }, () => finishedJob(account, slow.url, { at })));
    const id = await finishedJob(account, quick.url, { at });
    await untilTrue(() => quick.received.length === 1, 'the quick one is delivered');
    // Not behind the others: all of these are still under way or not tried yet.
    const others = (await deliveries(account.accountId, at)).filter(({ jobId }) => jobId !== id);
    expect(others.flatMap(({ attempts }) => attempts)).toEqual([]);
  } finally {
    await at.close();
  }
});

test('two control planes, and an event that came twice, deliver once', async () => {
  const account = await makeAccount(system, 100);
  const { url, received } = await endpoint(200);
  await system.startPlane();
  const ids = await Promise.all(Array.from({ length: 10 }, () => finishedJob(account, url)));
  const { sql } = system.database;
  for (const id of ids)
    await sql`insert into outbox (kind, job_id, status, due_at) values ('event', ${id}, 'succeeded', now())`;
  const settled = async () =>
    (await sql`select 1 from jobs where id = any(${ids}::text[]) and status = 'succeeded'`).length;
  const owed = async () =>
    (await sql`select 1 from outbox where job_id = any(${ids}::text[]) and kind = 'event'`).length;
  // In this order: a settled job owes its event, and an event that is no longer owed was published.
  await untilTrue(async () => (await settled()) === ids.length, 'all jobs are settled');
  await untilTrue(async () => (await owed()) === 0, 'every event is published, twice');
  await untilTrue(async () => {
    const all = await deliveries(account.accountId);
    return all.length === ids.length && all.every(({ state }) => state === 'delivered');
  }, 'all are delivered');
  await delay(200);
  expect(received).toHaveLength(10);
  expect(new Set(received.map(({ headers }) => headers['service-delivery'])).size).toBe(10);
});

test('a delivery whose process died is made by another when its lease has run out', async () => {
  const account = await makeAccount(system);
  const { url, received } = await endpoint(200);
  const { control, ask } = system.client;
  const { fileKey } = await upload(system, account.caller);
  const { id } = await ask(control.submitJob.bind(control), {
    ...photoSwap(account.caller, fileKey),
    callbackUrl: url,
  });
  // Settled and claimed in one step by no living process: no event reports it.
  await system.database.sql.begin(async (sql) => {
    await sql`select * from settle_job(${id}, null, null, 'processing_failed', 'x', 'render_failed', null)`;
    await sql`update deliveries set leased_until = now() + interval '1 hour' where job_id = ${id}`;
  });
  await delay(150);
  expect(received).toHaveLength(0);
  await system.database.sql`update deliveries set leased_until = now() where job_id = ${id}`;
  await untilTrue(() => received.length === 1, 'it is delivered');
});

test('six attempts take about a quarter of an hour', () => {
  const minutes = (random: number) => {
    const chance = vi.spyOn(Math, 'random').mockReturnValue(random);
    const pauses = [1, 2, 3, 4, 5].map(webhookBackoff);
    chance.mockRestore();
    return pauses.reduce((sum, pause) => sum + pause) / 60_000;
  };
  expect(minutes(0)).toBeGreaterThan(13);
  expect(minutes(1)).toBeLessThan(17);
});
