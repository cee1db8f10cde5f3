import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { jobRecord } from '@semblance/common/job-record';
import {
  makeAccount,
  photoSwap,
  startTestSystem,
  succeed,
  type TestSystem,
  untilJob,
  untilRenderJob,
  untilTrue,
  upload,
} from '@semblance/testkit/control-plane/control-plane';
import { Webhook } from 'standardwebhooks';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { openSql, type Sql } from '../storage/sql.ts';

let system: TestSystem;
let sql: Sql;
beforeAll(async () => {
  system = await startTestSystem({
    webhooks: { allow: ['127.0.0.0/8'], timeoutMs: 8_000, pollMs: 30, backoffMs: () => 40 },
  });
  sql = openSql({ url: system.pg.url, maxConnections: 3, settings: {}, deadlineMs: 10_000 });
});
afterAll(async () => {
  await sql.end();
  await system.close();
});

interface Received {
  readonly headers: Record<string, string>;
  readonly body: string;
}
const servers: Server[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
});

/** Returns an address that answers each call with the next status; the last one is for all later calls. */
async function receiver(...statuses: number[]) {
  const received: Received[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const status = statuses[Math.min(received.length, statuses.length - 1)] ?? 200;
    received.push({
      headers: request.headers as Record<string, string>,
      body: Buffer.concat(chunks).toString(),
    });
    response.writeHead(status).end();
  });
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook?token=x`, received };
}

type Account = Awaited<ReturnType<typeof makeAccount>>;
const calls = ({ caller }: Account) => {
  const { control, ask } = system.client;
  return {
    create: async (url: string, names: string[], more = {}) =>
      (
        await ask(control.createWebhookEndpoint.bind(control), {
          caller,
          fields: { url, events: { names }, ...more },
        })
      ).endpoint as NonNullable<unknown> & {
        id: string;
        enabled: boolean;
        disabledBy?: string;
        failingSince?: string;
      },
    read: async (endpointId: string) =>
      (await ask(control.getWebhookEndpoint.bind(control), { caller, endpointId })).endpoint,
    change: async (endpointId: string, fields: object) =>
      (await ask(control.updateWebhookEndpoint.bind(control), { caller, endpointId, fields })).endpoint,
    remove: (endpointId: string) => ask(control.deleteWebhookEndpoint.bind(control), { caller, endpointId }),
    test: async (endpointId: string) =>
      (await ask(control.testWebhookEndpoint.bind(control), { caller, endpointId })).delivery,
    list: () => ask(control.listWebhookEndpoints.bind(control), { caller }),
    deliveries: (asked: object = {}) =>
      ask(control.listWebhookDeliveries.bind(control), { caller, limit: 50, ...asked }),
    replay: async (deliveryId: string) =>
      (await ask(control.replayWebhookDelivery.bind(control), { caller, deliveryId })).delivery,
    secret: async () => (await ask(control.showWebhookSecret.bind(control), { caller })).secret,
  };
};

async function finishedJob(account: Account, callbackUrl?: string): Promise<string> {
  const { control, ask } = system.client;
  const { fileKey } = await upload(system, account.caller);
  const { id } = await ask(control.submitJob.bind(control), {
    ...photoSwap(account.caller, fileKey),
    callbackUrl,
  });
  await succeed(system, await untilRenderJob(system, id));
  return id;
}

describe('events of jobs', () => {
  test('go to each enabled endpoint that chose them, and to the callback, each as a delivery of its own', async () => {
    const account = await makeAccount(system);
    const { create, deliveries, secret } = calls(account);
    const [both, other, off, callback] = await Promise.all([1, 2, 3, 4].map(() => receiver(200)));
    const first = await create(both?.url ?? '', ['job.succeeded', 'job.failed']);
    await create(other?.url ?? '', ['job.failed']);
    await create(off?.url ?? '', ['job.succeeded'], { enabled: false });
    const id = await finishedJob(account, callback?.url);
    await untilTrue(() => both?.received.length === 1 && callback?.received.length === 1, 'both came');
    const [{ body, headers } = { body: '', headers: {} }] = both?.received ?? [];
    expect(JSON.parse(body)).toMatchObject({ event: 'job.succeeded', data: { id, status: 'succeeded' } });
    expect(JSON.parse(callback?.received[0]?.body ?? '').data).toEqual(JSON.parse(body).data);
    expect(new Webhook((await secret())?.secret ?? '').verify(body, headers)).toBeTruthy();
    await untilTrue(
      async () => (await deliveries()).deliveries.every(({ state }) => state === 'delivered'),
      'both are recorded',
    );
    const { deliveries: log } = await deliveries();
    expect(log.map(({ endpointId, jobId }) => [endpointId, jobId]).sort()).toEqual(
      [
        [first.id, id],
        [undefined, id],
      ].sort(),
    );
    expect(log.map(({ url }) => url)).not.toContain('token');
    expect(new Set(log.map((one) => one.id)).size).toBe(2);
    expect([other, off].map((one) => one?.received.length)).toEqual([0, 0]);
  });

  test('an endpoint that fails is tried again under the same id, and every attempt is in the log', async () => {
    const account = await makeAccount(system);
    const { create, deliveries, read, replay } = calls(account);
    const { url, received } = await receiver(500, 404, 200);
    const { id: endpointId } = await create(url, ['job.succeeded']);
    const id = await finishedJob(account);
    await untilTrue(() => received.length === 2, 'two attempts failed');
    // The same links as the key of the submit reads, which end with it.
    const job = await untilJob(system, account.caller, id, ({ status }) => status === 'succeeded');
    expect(JSON.parse(received[0]?.body ?? '').data).toEqual(jobRecord(job));
    await untilTrue(async () => (await deliveries()).deliveries[0]?.state === 'delivered', 'it succeeds');
    const [delivery] = (await deliveries({ endpointId })).deliveries;
    expect(delivery?.attempts.map(({ status, error }) => [status, error])).toEqual([
      [500, 'answered 500'],
      [404, 'answered 404'],
      [200, undefined],
    ]);
    expect(new Set(received.map(({ headers }) => headers['service-delivery']))).toEqual(
      new Set([delivery?.id]),
    );
    expect((await read(endpointId))?.failingSince).toBeUndefined();
    expect((await replay(delivery?.id ?? ''))?.state).toBe('pending');
    await untilTrue(() => received.length === 4, 'it is sent again');
  });
});

describe('an endpoint', () => {
  test('gets a test whichever events it chose, and is told why it fails', async () => {
    const account = await makeAccount(system);
    const { create, test: sendTest, deliveries } = calls(account);
    const { url, received } = await receiver(200);
    const { id } = await create(url, ['batch.finished']);
    const delivery = await sendTest(id);
    expect(delivery).toMatchObject({ event: 'test', state: 'pending', endpointId: id, attempts: [] });
    await untilTrue(() => received.length === 1, 'it came');
    expect(JSON.parse(received[0]?.body ?? '')).toMatchObject({
      event: 'test',
      delivery_id: delivery?.id,
      data: { endpoint_id: id },
    });
    await untilTrue(
      async () => (await deliveries({ deliveryId: delivery?.id })).deliveries[0]?.state === 'delivered',
      'it is recorded',
    );
  });

  test('that is disabled or deleted gets nothing more, and what waited for it ends', async () => {
    const account = await makeAccount(system);
    const { create, change, remove, test: sendTest, deliveries, list, replay } = calls(account);
    const { url, received } = await receiver(500);
    const [one, two] = [await create(url, ['job.failed']), await create(url, ['job.failed'])];
    await Promise.all([sendTest(one.id), sendTest(two.id)]);
    await untilTrue(() => received.length >= 2, 'both were tried');
    expect(await change(one.id, { enabled: false })).toMatchObject({ enabled: false, disabledBy: 'owner' });
    await remove(two.id);
    await untilTrue(
      async () => (await deliveries()).deliveries.every(({ state }) => state === 'abandoned'),
      'both end',
    );
    const { deliveries: log } = await deliveries();
    expect(log).toHaveLength(2);
    for (const { id } of log) await expect(replay(id)).rejects.toMatchObject({ code: 'invalid_input' });
    expect((await list()).endpoints.map(({ id }) => id)).toEqual([one.id]);
    await expect(sendTest(one.id)).rejects.toMatchObject({ code: 'invalid_input' });
    await expect(sendTest(two.id)).rejects.toMatchObject({ code: 'not_found' });
    const tried = received.length;
    await finishedJob(account);
    expect(received).toHaveLength(tried);
  });

  test('to which nothing but failures went for five days is disabled, and says so', async () => {
    const account = await makeAccount(system);
    const { create, test: sendTest, read, change, deliveries } = calls(account);
    const { url, received } = await receiver(500);
    const { id } = await create(url, ['job.failed']);
    const first = await sendTest(id);
    const state = async (of = first) => (await deliveries({ deliveryId: of?.id })).deliveries[0]?.state;
    await untilTrue(async () => (await state()) === 'abandoned', 'its attempts are used up');
    expect(await read(id)).toMatchObject({ enabled: true, failingSince: expect.any(String) });
    await sql`update webhook_endpoints set failing_since = now() - interval '5 days 1 minute' where id = ${id}`;
    await sendTest(id);
    await untilTrue(async () => (await read(id))?.enabled === false, 'it is disabled');
    expect(await read(id)).toMatchObject({ disabledBy: 'failing' });
    // The delivery after the five days had all its attempts.
    expect(received).toHaveLength(12);
    const again = await change(id, { enabled: true });
    expect([again?.enabled, again?.disabledBy, again?.failingSince]).toEqual([true, undefined, undefined]);
  });

  test('is its account’s alone', async () => {
    const [owner, stranger] = await Promise.all([makeAccount(system), makeAccount(system)]);
    const { url } = await receiver(200);
    const { id } = await calls(owner).create(url, ['job.failed']);
    const delivery = await calls(owner).test(id);
    const theirs = calls(stranger);
    const notFound = { code: 'not_found' };
    await expect(theirs.read(id)).rejects.toMatchObject(notFound);
    await expect(theirs.change(id, { enabled: false })).rejects.toMatchObject(notFound);
    await expect(theirs.remove(id)).rejects.toMatchObject(notFound);
    await expect(theirs.test(id)).rejects.toMatchObject(notFound);
    await expect(theirs.replay(delivery?.id ?? '')).rejects.toMatchObject(notFound);
    expect((await theirs.deliveries({ deliveryId: delivery?.id })).deliveries).toEqual([]);
    expect((await theirs.deliveries({ endpointId: id })).deliveries).toEqual([]);
    expect((await calls(owner).read(id))?.enabled).toBe(true);
  });

  test('is one of at most sixteen, however many are made at once', async () => {
    const account = await makeAccount(system);
    const { create, list } = calls(account);
    const made = await Promise.allSettled(
      Array.from({ length: 32 }, (_, i) => create(`http://127.0.0.1:9/${i}`, ['job.failed'])),
    );
    expect(made.filter(({ status }) => status === 'fulfilled')).toHaveLength(16);
    expect((await list()).endpoints).toHaveLength(16);
  });

  test.each<[string, object]>([
    ['no URL', { url: '' }],
    ['another scheme', { url: 'ftp://example.com' }],
    ['a password', { url: 'https://a:b@example.com' }],
    ['a private address', { url: 'http://10.0.0.1/' }],
    ['a link-local address', { url: 'https://169.254.169.254/latest' }],
    ['no events', { events: { names: [] } }],
    ['an event twice', { events: { names: ['job.failed', 'job.failed'] } }],
    ['an unknown event', { events: { names: ['test'] } }],
    ['a long description', { description: 'x'.repeat(201) }],
    ['a null character', { description: 'a\0b' }],
  ])('is refused with %s', async (_, fields) => {
    const account = await makeAccount(system);
    const { create, change, read } = calls(account);
    const { id } = await create('http://127.0.0.1:9/', ['job.failed']);
    await expect(change(id, fields)).rejects.toMatchObject({ code: 'invalid_input' });
    expect(await read(id)).toMatchObject({
      url: 'http://127.0.0.1:9/',
      events: ['job.failed'],
      description: '',
    });
  });
});

test('the log is in the order of the events, not of the submits of their jobs, and is paged without gaps', async () => {
  const account = await makeAccount(system);
  const { create, test: sendTest, deliveries } = calls(account);
  const { url } = await receiver(200);
  const { id: endpointId } = await create(url, ['batch.finished']);
  const { control, ask } = system.client;
  const { fileKey } = await upload(system, account.caller);
  const { id } = await ask(control.submitJob.bind(control), {
    ...photoSwap(account.caller, fileKey),
    callbackUrl: url,
  });
  const sent = [await sendTest(endpointId), await sendTest(endpointId)];
  await succeed(system, await untilRenderJob(system, id));
  await untilTrue(async () => (await deliveries({ jobId: id })).deliveries.length === 1, 'the job is told');
  const wanted = [id.replace('job-', 'dlv-'), sent[1]?.id, sent[0]?.id];
  expect((await deliveries()).deliveries.map((one) => one.id)).toEqual(wanted);
  const paged: (string | undefined)[] = [];
  for (let cursor: string | undefined, more = true; more; more = cursor !== undefined) {
    const page = await deliveries({ limit: 1, cursor });
    paged.push(...page.deliveries.map((one) => one.id));
    cursor = page.nextCursor;
  }
  expect(paged).toEqual(wanted);
  await expect(deliveries({ cursor: 'dlv-x' })).rejects.toMatchObject({ code: 'invalid_input' });
});

test('changes by two calls at once are both made, and each is in the audit with its key', async () => {
  const account = await makeAccount(system);
  const { create, change, read, remove } = calls(account);
  const { id } = await create('http://127.0.0.1:9/?secret=1', ['job.failed']);
  await Promise.all([change(id, { description: 'the shop' }), change(id, { enabled: false })]);
  expect(await read(id)).toMatchObject({ description: 'the shop', enabled: false });
  await remove(id);
  const rows = await sql<{ action: string; role: string; after: string | null }[]>`
    select action, role, after::text from audit where account_id = ${account.accountId} and subject = ${id} order by id`;
  expect(rows.map(({ action, role }) => [action, role])).toEqual([
    ['CreateWebhookEndpoint', 'account'],
    ['UpdateWebhookEndpoint', 'account'],
    ['UpdateWebhookEndpoint', 'account'],
    ['DeleteWebhookEndpoint', 'account'],
  ]);
  expect(JSON.stringify(rows)).not.toContain('secret=1');
});

test('an event about one subject goes to each target once, with the transaction in which it happens', async () => {
  const account = await makeAccount(system);
  const { create, deliveries } = calls(account);
  const [endpoint, callback] = [await receiver(200), await receiver(200)];
  await create(endpoint.url, ['balance.low']);
  const owe = (subject: string) =>
    sql`select owe_event(${account.accountId}, 'balance.low', ${subject}, '{"available_usd": 1}'::jsonb, ${callback.url})`;
  await sql
    .begin(async (tx) => {
      await tx`select owe_event(${account.accountId}, 'balance.low', 'undone', '{}'::jsonb, ${callback.url})`;
      throw new Error('undone');
    })
    .catch(() => undefined);
  await Promise.all([owe('a'), owe('a'), owe('a')]);
  await owe('b');
  await untilTrue(() => endpoint.received.length + callback.received.length === 4, 'two each');
  expect((await deliveries()).deliveries).toHaveLength(4);
  expect(JSON.parse(endpoint.received[0]?.body ?? '')).toMatchObject({
    event: 'balance.low',
    data: { available_usd: 1 },
  });
});

test('identifiers of the database are like those of the services', async () => {
  const rows = await sql<{ id: string }[]>`
    select new_id('dlv-') as id from generate_series(1, 200) order by random()`;
  expect(rows.every(({ id }) => /^dlv-[0-9a-hjkmnp-tv-z]{26}$/.test(id))).toBe(true);
  expect(new Set(rows.map(({ id }) => id)).size).toBe(200);
  const [early] = await sql<{ id: string }[]>`select new_id('dlv-') as id`;
  await new Promise((resolve) => setTimeout(resolve, 5));
  const [late] = await sql<{ id: string }[]>`select new_id('dlv-') as id`;
  expect((late?.id ?? '') > (early?.id ?? '')).toBe(true);
});
