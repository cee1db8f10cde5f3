import { eventually } from '@semblance/testkit/stack/eventually';
import { ADMIRAL, ASTRONAUT, faceless, longPortrait } from '@semblance/testkit/stack/media';
import { type Received, type Receiver, startReceiver } from '@semblance/testkit/stack/receiver';
import { whileRunning } from '@semblance/testkit/stack/render-jobs';
import { type Account, type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import { Webhook } from 'standardwebhooks';
import Stripe from 'stripe';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';

let stack: Stack;
let account: Account;
let secret: string;
let image_key: string;
let face_key: string;
let no_face_key: string;
/**
 * Delivery to an endpoint that never answers. It begins with the suite, so that its ten seconds pass during other
 * tests.
 */
let silent: { receiver: Receiver; id: string };

beforeAll(async () => {
  stack = await sharedStack();
  account = await stack.newAccount();
  ({ secret } = (await stack.admin('secret', 'show', { account: account.accountId })) as { secret: string });
  [image_key, face_key, no_face_key] = await Promise.all([
    account.api.upload(ASTRONAUT),
    account.api.upload(ADMIRAL),
    account.api.upload(await faceless('jpeg', 64, 64)),
  ]);
  const silence = await startReceiver(0);
  silent = { receiver: silence, id: (await submit(silence.url, no_face_key)).id };
}, 240_000);
afterAll(() => silent?.receiver.close());

const receivers: Receiver[] = [];
afterEach(async () => {
  for (const receiver of receivers.splice(0)) await receiver.close();
});

async function receiver(...statuses: number[]) {
  const started = await startReceiver(...statuses);
  receivers.push(started);
  return started;
}

const submit = (callback_url: string, image = image_key, of = account) =>
  of.api.swap({ image_key: image, face_key, callback_url });

/** Waits for the n-th delivery to an endpoint. */
const delivery = (at: Receiver, n = 1): Promise<Received> =>
  eventually(`delivery ${n}`, () => at.received[n - 1], { withinMs: 100_000 });

interface Listed {
  readonly delivery_id: string;
  readonly job_id: string;
  readonly event: string;
  readonly state: string;
  readonly attempts: readonly { at: string; status: number | null; error: string | null }[];
}
const listed = async (jobId: string, of = account) => {
  const all = (await stack.admin('delivery', 'list', { account: of.accountId })) as unknown as Listed[];
  return all.find(({ job_id }) => job_id === jobId);
};

interface Body {
  readonly event: string;
  readonly sent_at: string;
  readonly delivery_id: string;
  readonly data: Record<string, unknown>;
}
const parsed = ({ body }: Received) => JSON.parse(body.toString()) as Body;

/**
 * Verifies a signature as an integrator does who knows only the format: with Stripe's library, whose format it is.
 */
function verify({ headers, body }: Received, key: string, toleranceSeconds = 300): boolean {
  return verifyHeader(String(headers['service-signature']), body, key, toleranceSeconds);
}

const verifyNext = ({ headers, body }: Received, key: string) =>
  verifyHeader(String(headers['service-signature-next']), body, key, 300);

const verifyHeader = (header: string, body: Buffer, key: string, toleranceSeconds: number) =>
  Stripe.webhooks.signature?.verifyHeader(body, header, key, toleranceSeconds) ?? false;

describe('Trigger and body', () => {
  test('When a job submitted with `callback_url` reaches a terminal state, the service POSTs to that URL: event, sent_at, delivery_id, and a data object whose bytes are those of GET /jobs/{job_id}', async () => {
    const endpoint = await receiver(200);
    const { id } = await submit(endpoint.url);
    const got = await delivery(endpoint);
    expect([got.method, got.path]).toEqual(['POST', '/hooks/semblance?for=test']);
    const { event, sent_at, delivery_id, data } = parsed(got);
    expect(Object.keys(parsed(got))).toEqual(['event', 'sent_at', 'delivery_id', 'data']);
    expect(event).toBe('job.succeeded');
    expect(new Date(sent_at).toISOString()).toBe(sent_at);
    expect(Math.abs(Date.parse(sent_at) - Date.now())).toBeLessThan(300_000);
    expect(data).toMatchObject({ id, status: 'succeeded', error: null });
    const { text } = await account.api.get(`/jobs/${id}`);
    expect(got.body.toString()).toBe(
      `{"event":"job.succeeded","sent_at":"${sent_at}","delivery_id":"${delivery_id}","data":${text}}`,
    );
  });

  test('job.failed: Failures are delivered too', async () => {
    const endpoint = await receiver(204);
    const { id } = await submit(endpoint.url, no_face_key);
    const got = await delivery(endpoint);
    expect(parsed(got)).toMatchObject({
      event: 'job.failed',
      data: { id, status: 'failed', charged_usd: 0, output_url: null, error: { code: 'face_not_detected' } },
    });
    expect(got.headers['service-event']).toBe('job.failed');
    expect(got.body.toString()).toContain(`"data":${(await account.api.get(`/jobs/${id}`)).text}}`);
  });
});

describe('A job cancelled internally reports `failed`', () => {
  test('and its delivery is job.failed, with the record that GET answers, charged 0', async () => {
    const endpoint = await receiver(200);
    const large = await account.api.upload(await longPortrait());
    const id = await whileRunning(
      stack.kubectl,
      async () => (await submit(endpoint.url, large)).id,
      async (id) => {
        const { body } = await account.api.post(`/jobs/${id}/cancel`, {});
        return (body as { status: string }).status === 'succeeded' ? undefined : id;
      },
    );
    const got = await eventually(
      'its delivery',
      () => endpoint.received.find((one) => parsed(one).data.id === id),
      { withinMs: 60_000 },
    );
    expect(parsed(got)).toMatchObject({
      event: 'job.failed',
      data: { id, status: 'failed', charged_usd: 0, output_url: null, error: { code: 'processing_failed' } },
    });
    expect(got.headers['service-event']).toBe('job.failed');
    expect(got.body.toString()).toContain(`"data":${(await account.api.get(`/jobs/${id}`)).text}}`);
    expect(verify(got, secret)).toBe(true);
  });
});

describe('Headers and signature', () => {
  test('Service-Signature `t=<unix_seconds>,v1=<hex>`, Service-Event, Service-Delivery, JSON; a published library verifies the raw bytes', async () => {
    const endpoint = await receiver(200);
    await submit(endpoint.url);
    const got = await delivery(endpoint);
    const { event, delivery_id } = parsed(got);
    expect(got.headers).toMatchObject({
      'content-type': 'application/json',
      'service-event': event,
      'service-delivery': delivery_id,
      'content-length': String(got.body.length),
    });
    const header = String(got.headers['service-signature']);
    expect(header).toMatch(/^t=\d{10},v1=[0-9a-f]{64}$/);
    expect(Math.abs(Number(header.slice(2, 12)) - Date.now() / 1000)).toBeLessThan(300);
    expect(verify(got, secret)).toBe(true);
    expect(() => verify(got, `${secret}x`)).toThrow(/signatures/i);
    expect(() => verify({ ...got, body: Buffer.from(`${got.body} `) }, secret)).toThrow(/signatures/i);
  });

  test('A receiver should reject a delivery whose `t` is more than 300 seconds from current time', async () => {
    const endpoint = await receiver(200);
    await submit(endpoint.url);
    const got = await delivery(endpoint);
    const t = Number(String(got.headers['service-signature']).slice(2, 12));
    const at = (now: number) =>
      Stripe.webhooks.signature?.verifyHeader(
        got.body,
        String(got.headers['service-signature']),
        secret,
        300,
        undefined,
        now * 1000,
      );
    expect(at(t + 299)).toBe(true);
    expect(() => at(t + 301)).toThrow(/tolerance/i);
  });

  test('The secret is rotated separately: the next one signs in a header of its own until it is promoted, and an API key that is revoked changes nothing', async () => {
    const own = await stack.newAccount();
    const [image, face] = await Promise.all([own.api.upload(ASTRONAUT), own.api.upload(ADMIRAL)]);
    const secretBy = async (verb: string) =>
      (await stack.admin('secret', verb, { account: own.accountId })) as { secret: string; next: string };
    const { secret: old } = await secretBy('show');
    const { next } = await secretBy('rotate');
    expect(await secretBy('show')).toEqual({ secret: old, next });
    const endpoint = await receiver(200);
    await own.api.swap({ image_key: image, face_key: face, callback_url: endpoint.url });
    const first = await delivery(endpoint);
    expect([verify(first, old), verifyNext(first, next)]).toEqual([true, true]);
    expect(await secretBy('promote')).toEqual({ secret: next });
    await own.api.swap({ image_key: image, face_key: face, callback_url: endpoint.url });
    await stack.admin('key', 'revoke', { key: own.keyId });
    const second = await delivery(endpoint, 2);
    expect(verify(second, next)).toBe(true);
    expect(() => verify(second, old)).toThrow(/signatures/i);
    for (const { headers } of [first, second])
      expect(String(headers['service-signature'])).toMatch(/^t=\d+,v1=[0-9a-f]{64}$/);
    expect(second.headers).not.toHaveProperty('service-signature-next');
  });

  test('The secret is created the first time the account asks for it, in the console or by a callback, so that every delivery is signed', async () => {
    const own = await stack.newAccount();
    const [image, face] = await Promise.all([own.api.upload(ASTRONAUT), own.api.upload(ADMIRAL)]);
    const endpoint = await receiver(200);
    await own.api.swap({ image_key: image, face_key: face, callback_url: endpoint.url });
    const got = await delivery(endpoint);
    const { secret: made } = (await stack.admin('secret', 'show', { account: own.accountId })) as {
      secret: string;
    };
    expect(verify(got, made)).toBe(true);
  });

  test('a delivery is one of Standard Webhooks, too: its library verifies it with the secret as shown', async () => {
    const endpoint = await receiver(200);
    await submit(endpoint.url);
    const got = await delivery(endpoint);
    const library = new Webhook(secret);
    expect(library.verify(got.body, got.headers as Record<string, string>)).toEqual(parsed(got));
    expect(got.headers['webhook-id']).toBe(parsed(got).delivery_id);
    expect(() => library.verify(`${got.body} `, got.headers as Record<string, string>)).toThrow(
      'No matching signature found',
    );
  });
});

describe('Delivery', () => {
  test('Any 2xx response is a success', async () => {
    for (const status of [200, 201, 202, 204, 299]) {
      const endpoint = await receiver(status);
      const { id } = await submit(endpoint.url, no_face_key);
      const done = await eventually('it is delivered', async () => {
        const found = await listed(id);
        return found?.state === 'delivered' ? found : undefined;
      });
      expect(done.attempts).toEqual([{ at: expect.any(String), status, error: null }]);
      expect(endpoint.received).toHaveLength(1);
    }
  });

  test('Non-2xx counts as a failure and is retried under the same delivery_id, a redirect too, which is not followed; the record stays as it was', async () => {
    const endpoint = await receiver(302, 200);
    const { id } = await submit(endpoint.url);
    await delivery(endpoint);
    const before = (await account.api.get(`/jobs/${id}`)).text;
    const again = await delivery(endpoint, 2);
    const [first] = endpoint.received;
    expect(endpoint.received.map(({ path }) => path)).toEqual(Array(2).fill('/hooks/semblance?for=test'));
    expect(parsed(again).delivery_id).toBe(parsed(first as Received).delivery_id);
    expect(parsed(again).data).toEqual(parsed(first as Received).data);
    const pause = Date.parse(parsed(again).sent_at) - Date.parse(parsed(first as Received).sent_at);
    expect(pause).toBeGreaterThan(6_000);
    expect(verify(again, secret)).toBe(true);
    expect((await account.api.get(`/jobs/${id}`)).text).toBe(before);
  });

  test('a delivery can be listed and replayed, under its id', async () => {
    const endpoint = await receiver(200);
    const { id } = await submit(endpoint.url, no_face_key);
    const { delivery_id } = parsed(await delivery(endpoint));
    await eventually('it is recorded', async () => (await listed(id))?.state === 'delivered' || undefined);
    await stack.admin('delivery', 'replay', { delivery: delivery_id });
    expect(parsed(await delivery(endpoint, 2)).delivery_id).toBe(delivery_id);
    const refused = stack.admin('delivery', 'replay', { delivery: 'dlv-none' });
    await expect(refused).rejects.toMatchObject({ code: 'not_found' });
  });

  test('A failed webhook delivery does not expire the result', async () => {
    const { id } = await submit('http://127.0.0.1:1/nobody-listens');
    const job = await account.api.finished(id);
    await eventually('an attempt to fail', async () => (await listed(id))?.attempts[0]?.error ?? undefined);
    expect(await account.api.job(id)).toEqual(job);
    expect((await fetch(job.output_url ?? '')).status).toBe(200);
  });

  test('Response timeout 10 seconds, after which the attempt counts as a failure', async () => {
    const done = await eventually(
      'the attempt to be recorded',
      async () => {
        const found = await listed(silent.id);
        return found?.attempts.length ? found : undefined;
      },
      { withinMs: 100_000 },
    );
    expect(done).toMatchObject({ event: 'job.failed', state: 'pending' });
    expect(done.attempts[0]).toMatchObject({ status: null, error: 'no answer within 10000 ms' });
    const [got] = silent.receiver.received;
    expect(parsed(got as Received).delivery_id).toBe(done.delivery_id);
    expect(await account.api.job(silent.id)).toMatchObject({ status: 'failed' });
  });
});
