/**
 * Two gateway processes, each before its own control plane, on one database. The tests check promises that hold
 * across both.
 */
import {
  makeAccount,
  startTestSystem,
  type TestSystem,
} from '@semblance/testkit/control-plane/control-plane';
import { type GatewayProcess, startGatewayProcess } from '@semblance/testkit/gateway/gateway-process';
import { type Api, apiOf } from '@semblance/testkit/stack/api';
import { expectError } from '@semblance/testkit/stack/expect-error';
import { ADMIRAL } from '@semblance/testkit/stack/media';
import { afterAll, beforeAll, expect, test } from 'vitest';

let system: TestSystem;
let gateways: GatewayProcess[] = [];

beforeAll(async () => {
  system = await startTestSystem();
  const second = await system.startPlane();
  gateways = await Promise.all(
    [system.plane.port, second.port].map((controlPort) =>
      startGatewayProcess({ controlPort, folder: system.folder }),
    ),
  );
}, 120_000);

afterAll(async () => {
  await Promise.all(gateways.map((gateway) => gateway.end('SIGTERM')));
  await system.close();
});

const through = (apiKey: string): Api[] => gateways.map(({ baseUrl }) => apiOf({ baseUrl, apiKey }));

test('60 requests per minute per key, fixed window: exact over both', async () => {
  const { apiKey, keyId } = await makeAccount(system, 1, 60);
  const apis = through(apiKey);
  const answers = await Promise.all(
    Array.from({ length: 200 }, (_, i) =>
      i % 5 === 4
        ? (apis[i % 2] as Api).post('/estimate', {})
        : (apis[i % 2] as Api).get(
            ['/balance', '/usage', '/usage/summary', '/jobs/job-none'][i % 5] as string,
          ),
    ),
  );
  const refused = answers.filter(({ status }) => status === 429);
  expect(answers.length - refused.length).toBe(60);
  for (const answer of refused) {
    expectError(answer, 'rate_limited');
    const wait = Number(answer.headers.get('retry-after'));
    expect(wait).toBeGreaterThanOrEqual(1);
    expect(wait).toBeLessThanOrEqual(60);
  }
  // Each served call has its own place in the window, whichever process served it.
  const places = answers
    .filter(({ status }) => status !== 429)
    .map(({ headers }) => Number(headers.get('ratelimit-remaining')))
    .sort((a, b) => a - b);
  expect(places).toEqual([...Array(60).keys()]);

  // The window ends for both gateways at once.
  await system.database
    .sql`update rate_windows set opened_at = opened_at - interval '60 seconds' where key_id = ${keyId}`;
  const next = await Promise.all(Array.from({ length: 80 }, (_, i) => (apis[i % 2] as Api).get('/balance')));
  expect(next.filter(({ status }) => status === 200)).toHaveLength(60);
});

test('100 retries at once over both under one Idempotency-Key: one job, one hold, one answer, byte for byte', async () => {
  const { apiKey, accountId } = await makeAccount(system, 10);
  const apis = through(apiKey);
  const key = await (apis[0] as Api).upload(ADMIRAL);
  const body = { image_key: key, face_key: key };
  const answers = await Promise.all(
    Array.from({ length: 100 }, (_, i) =>
      (apis[i % 2] as Api).post('/face-swap-image', body, { 'idempotency-key': 'one order' }),
    ),
  );
  expect(new Set(answers.map(({ status, text }) => `${status} ${text}`)).size).toBe(1);
  const replayed = answers.filter(({ headers }) => headers.get('idempotent-replayed') === 'true');
  expect(replayed).toHaveLength(99);
  const [row] = await system.database.sql`
    select (select count(*)::int from jobs where account_id = ${accountId}) as jobs,
           (select count(*)::int from ledger_transfers where account_id = ${accountId} and kind = 'hold') as holds`;
  expect(row).toEqual({ jobs: 1, holds: 1 });
});

test('50 submits at once over both on a balance for 7 are 7 jobs', async () => {
  const { apiKey, accountId } = await makeAccount(system, 0.45);
  const apis = through(apiKey);
  const key = await (apis[1] as Api).upload(ADMIRAL);
  const answers = await Promise.all(
    Array.from({ length: 50 }, (_, i) =>
      (apis[i % 2] as Api).post('/face-swap-image', { image_key: key, face_key: key }),
    ),
  );
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(7);
  for (const answer of answers.filter(({ status }) => status !== 200))
    expectError(answer, 'insufficient_balance');
  expect([...(await system.database.sql`select * from ledger_faults(${accountId})`)]).toEqual([]);
});

test('a gateway killed between receipt and answer: retries through the other find the one job of each key', async () => {
  const { apiKey, accountId } = await makeAccount(system, 100);
  const [first, second] = through(apiKey) as [Api, Api];
  const key = await second.upload(ADMIRAL);
  const keys: string[] = [];
  const submit = (api: Api, name: string) =>
    api.post('/face-swap-image', { image_key: key, face_key: key }, { 'idempotency-key': name });
  const answered = new Map<string, string>();
  let lost = 0;
  const send = (name: string) =>
    submit(first, name).then(
      ({ text }) => {
        answered.set(name, text);
        // At this moment some submits are answered, and others are on their way.
        if (answered.size === 5) gateways[0]?.child.kill('SIGKILL');
      },
      () => {
        lost++;
      },
    );
  // On a busy machine all may be answered before the test sees the fifth answer; a few more then find the gateway
  // dead. All together are still fewer than an account may have in flight.
  for (const size of [90, 5]) {
    if (lost > 0) break;
    const batch = Array.from({ length: size }, (_, i) => `order ${keys.length + i}`);
    keys.push(...batch);
    await Promise.all(batch.map(send));
  }
  expect(lost).toBeGreaterThan(0);
  const retries = await Promise.all(keys.map((name) => submit(second, name)));
  expect(retries.map(({ status }) => status)).toEqual(Array(keys.length).fill(200));
  for (const [name, text] of answered) expect(retries[keys.indexOf(name)]?.text).toBe(text);
  expect(new Set(retries.map(({ text }) => text)).size).toBe(keys.length);
  const [row] = await system.database.sql`
    select (select count(*)::int from jobs where account_id = ${accountId}) as jobs,
           (select count(*)::int from ledger_transfers where account_id = ${accountId} and kind = 'hold') as holds`;
  expect(row).toEqual({ jobs: keys.length, holds: keys.length });
});
