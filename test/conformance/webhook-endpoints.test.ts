import { apiOf } from '@semblance/testkit/stack/api';
import { eventually } from '@semblance/testkit/stack/eventually';
import { expectError } from '@semblance/testkit/stack/expect-error';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/stack/media';
import { type Receiver, startReceiver } from '@semblance/testkit/stack/receiver';
import { type Account, type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import { Webhook } from 'standardwebhooks';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

/** Additions to the specification: webhook endpoints, the log of deliveries, and the signing secret. */
let stack: Stack;
let account: Account;
let failing: Receiver;

beforeAll(async () => {
  stack = await sharedStack();
  account = await stack.newAccount({ balanceUsd: 10 });
  failing = await startReceiver(503, 200);
}, 240_000);
afterAll(() => failing?.close());

type Json = Record<string, unknown>;
interface Delivery extends Json {
  readonly id: string;
  readonly state: string;
  readonly attempts: { status: number | null; error: string | null }[];
}

/** Calls with the methods that the client of the tests has not. */
async function call(method: string, path: string, body?: unknown, of: Account = account) {
  const response = await fetch(of.api.baseUrl + path, {
    method,
    headers: {
      Authorization: `Bearer ${of.apiKey}`,
      ...(body !== undefined && { 'Content-Type': 'application/json' }),
    },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  });
  const text = await response.text();
  return {
    status: response.status,
    headers: response.headers,
    text,
    body: (text ? JSON.parse(text) : undefined) as Json,
  };
}

async function made(url: string, events: string[], of = account): Promise<Json & { id: string }> {
  const answer = await call('POST', '/webhook-endpoints', { url, events }, of);
  expect(answer.status, answer.text).toBe(201);
  return answer.body as Json & { id: string };
}

describe('webhook endpoints', () => {
  test('an endpoint is told the ends of jobs, tried again, and its log shows every attempt', async () => {
    const endpoint = await made(failing.url, ['job.succeeded']);
    expect(endpoint).toMatchObject({
      enabled: true,
      disabled_by: null,
      description: '',
      events: ['job.succeeded'],
    });
    const [image_key, face_key] = await Promise.all([
      account.api.upload(ADMIRAL),
      account.api.upload(ASTRONAUT),
    ]);
    const { id } = await account.api.swap({ image_key, face_key });
    const record = await account.api.finished(id);
    await eventually('the second attempt', async () => failing.received[1], { withinMs: 60_000 });
    const [, second] = failing.received;
    const { secret, next } = (await call('GET', '/webhook-secret')).body as { secret: string; next: null };
    expect(next).toBeNull();
    const body = second?.body.toString() ?? '';
    const told = new Webhook(secret).verify(body, second?.headers as Record<string, string>) as Json;
    expect(told).toMatchObject({ event: 'job.succeeded', data: { id, status: 'succeeded' } });
    expect(Object.keys(told.data as Json)).toEqual(Object.keys(record));
    const log = async () =>
      (await call('GET', `/webhook-deliveries?endpoint_id=${endpoint.id}&job_id=${id}`)).body as unknown as {
        deliveries: Delivery[];
        next_cursor: null;
      };
    await eventually(
      'its record',
      async () => (await log()).deliveries[0]?.state === 'delivered' || undefined,
    );
    const { deliveries, next_cursor } = await log();
    expect(next_cursor).toBeNull();
    expect(deliveries).toHaveLength(1);
    expect(deliveries[0]).toMatchObject({ id: told.delivery_id, event: 'job.succeeded', job_id: id });
    expect(deliveries[0]?.attempts.map(({ status }) => status)).toEqual([503, 200]);
    const again = await call('POST', `/webhook-deliveries/${told.delivery_id}/replay`);
    expect(again).toMatchObject({ status: 202, body: { id: told.delivery_id, state: 'pending' } });
    await eventually('the replay', async () => failing.received[2], { withinMs: 30_000 });
  }, 180_000);

  test('a test event is delivered at once, and changes, lists and deletions answer as the document says', async () => {
    const receiver = await startReceiver(204);
    try {
      const { id } = await made(receiver.url, ['batch.finished', 'balance.low']);
      const sent = await call('POST', `/webhook-endpoints/${id}/test`);
      expect(sent).toMatchObject({ status: 202, body: { event: 'test', endpoint_id: id, job_id: null } });
      await eventually('the test', async () => receiver.received[0], { withinMs: 30_000 });
      expect(JSON.parse(receiver.received[0]?.body.toString() ?? '')).toMatchObject({
        event: 'test',
        delivery_id: sent.body.id,
      });
      const changed = await call('PATCH', `/webhook-endpoints/${id}`, {
        enabled: false,
        description: 'the shop',
      });
      expect(changed).toMatchObject({
        status: 200,
        body: {
          enabled: false,
          disabled_by: 'owner',
          description: 'the shop',
          events: ['batch.finished', 'balance.low'],
        },
      });
      expect((await call('GET', `/webhook-endpoints/${id}`)).body).toEqual(changed.body);
      const { endpoints } = (await call('GET', '/webhook-endpoints')).body as unknown as {
        endpoints: Json[];
      };
      expect(endpoints).toContainEqual(changed.body);
      expectError(await call('POST', `/webhook-endpoints/${id}/test`), 'invalid_input');
      expect(await call('DELETE', `/webhook-endpoints/${id}`)).toMatchObject({ status: 204, text: '' });
      for (const [method, path] of [
        ['GET', ''],
        ['PATCH', ''],
        ['DELETE', ''],
        ['POST', '/test'],
      ] as const)
        expectError(
          await call(method, `/webhook-endpoints/${id}${path}`, method === 'PATCH' ? {} : undefined),
          'not_found',
        );
    } finally {
      await receiver.close();
    }
  });

  test('the secret is replaced in two steps, and at once', async () => {
    const of = await stack.newAccount({ balanceUsd: 1 });
    const step = async (name: string) => (await call('POST', `/webhook-secret/${name}`, undefined, of)).body;
    const first = (await call('GET', '/webhook-secret', undefined, of)).body;
    expect(first).toEqual({ secret: expect.stringMatching(/^whsec_/), next: null });
    expectError(await call('POST', '/webhook-secret/finish', undefined, of), 'invalid_input');
    const begun = await step('begin');
    expect(begun).toEqual({ secret: first.secret, next: expect.stringMatching(/^whsec_/) });
    expect(await step('begin')).toEqual(begun);
    expect(await step('finish')).toEqual({ secret: begun.next, next: null });
    const now = await step('now');
    expect(now.secret).not.toBe(begun.next);
    expectError(await call('POST', '/webhook-secret/never', undefined, of), 'not_found');
  });

  test('another account sees, changes and replays nothing', async () => {
    const stranger = await stack.newAccount({ balanceUsd: 1 });
    const { id } = await made('http://127.0.0.1:9/', ['job.failed']);
    const sent = await call('POST', `/webhook-endpoints/${id}/test`);
    const paths: [string, string, unknown?][] = [
      ['GET', `/webhook-endpoints/${id}`],
      ['PATCH', `/webhook-endpoints/${id}`, { enabled: false }],
      ['DELETE', `/webhook-endpoints/${id}`],
      ['POST', `/webhook-endpoints/${id}/test`],
      ['GET', `/webhook-deliveries/${sent.body.id}`],
      ['POST', `/webhook-deliveries/${sent.body.id}/replay`],
    ];
    for (const [method, path, body] of paths)
      expectError(await call(method, path, body, stranger), 'not_found');
    expect((await call('GET', '/webhook-deliveries', undefined, stranger)).body).toEqual({
      deliveries: [],
      next_cursor: null,
    });
    expect((await call('GET', `/webhook-endpoints/${id}`)).body).toMatchObject({ enabled: true });
    await call('DELETE', `/webhook-endpoints/${id}`);
  });

  test.each<[string, unknown]>([
    ['no object', '[]'],
    ['no JSON', '{'],
    ['nothing', {}],
    ['no events', { url: 'https://example.com', events: [] }],
    ['an unknown event', { url: 'https://example.com', events: ['job.started'] }],
    ['an event twice', { url: 'https://example.com', events: ['job.failed', 'job.failed'] }],
    ['a number for a URL', { url: 1, events: ['job.failed'] }],
    ['a private address', { url: 'http://192.168.0.1/', events: ['job.failed'] }],
    [
      'a URL of 3,000 characters',
      { url: `https://example.com/${'x'.repeat(3_000)}`, events: ['job.failed'] },
    ],
    ['a list for a description', { url: 'https://example.com', events: ['job.failed'], description: [] }],
    ['a word for enabled', { url: 'https://example.com', events: ['job.failed'], enabled: 'yes' }],
  ])('a body with %s is refused', async (_, body) => {
    expectError(await call('POST', '/webhook-endpoints', body), 'invalid_input');
  });

  test('without a key nothing is told', async () => {
    const { api } = account;
    const anyone = apiOf({ baseUrl: api.baseUrl });
    for (const path of ['/webhook-endpoints', '/webhook-deliveries', '/webhook-secret'])
      expectError(await anyone.get(path), 'unauthorized');
  });
});
