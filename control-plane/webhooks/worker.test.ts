import { createServer, type RequestListener, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { silentLogger } from '@semblance/common/logging';
import type { EventBus } from '@semblance/events/bus';
import { jobEvent } from '@semblance/events/jobs';
import { createNatsBus } from '@semblance/events/nats-bus';
import { openObjectStore } from '@semblance/objects/open';
import { untilTrue } from '@semblance/testkit/control-plane/control-plane';
import { type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { seedJobs, settleJobs } from '@semblance/testkit/control-plane/webhook-jobs';
import { testNats } from '@semblance/testkit/servers/shared';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createJobView } from '../jobs/job-view.ts';
import { createAddressGuard } from './addresses.ts';
import { deliveryIdOf, replayDelivery } from './deliveries.ts';
import { createSender } from './sender.ts';
import { createWebhookWorker } from './worker.ts';

const HANGING = 300;
const EACH = 4;
const GOOD = 40;

let db: TestDatabase;
let nats: Awaited<ReturnType<typeof testNats>>;
let bus: EventBus;
const servers: Server[] = [];
const stop = new AbortController();
let work: Promise<void>;
beforeAll(async () => {
  [db, nats] = await Promise.all([testDatabase(), testNats()]);
  bus = createNatsBus({ url: nats.url, name: 'test', logger: silentLogger() });
  // The first test has many jobs, which run for ever.
  await db.sql`update settings set jobs_in_flight = 1000000`;
  const objects = openObjectStore({
    url: 'file:///nowhere',
    signingKey: Buffer.alloc(32),
    publicUrl: 'http://127.0.0.1:1',
  });
  const worker = createWebhookWorker({
    database: db.database,
    events: bus,
    // Attempts at hanging endpoints outlast the test.
    sender: createSender({ guard: createAddressGuard({ allow: ['127.0.0.0/8'] }), timeoutMs: 600_000 }),
    view: createJobView({ objects }),
    logger: silentLogger(),
  });
  work = worker.run(stop.signal);
});
afterAll(async () => {
  stop.abort();
  for (const server of servers) server.closeAllConnections();
  await work;
  await bus.close();
  for (const server of servers) await new Promise((resolve) => server.close(resolve));
  await db.close();
  await nats.close();
});

async function listen(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  servers.push(server);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

test('300 endpoints that hang delay neither the endpoint that answers, of their own account or another, nor one never seen before', async () => {
  const hung = new Set<string>();
  const arrived = new Set<string>();
  const hang: RequestListener = ({ headers }) => void hung.add(String(headers['service-delivery']));
  const answer: RequestListener = ({ headers }, response) => {
    arrived.add(String(headers['service-delivery']));
    response.writeHead(204).end();
  };
  const hanging = await Promise.all(Array.from({ length: HANGING }, () => listen(hang)));
  const [own, others, newcomer] = await Promise.all([listen(answer), listen(answer), listen(answer)]);
  // Two accounts alternate: even jobs belong to the first, which has all hanging endpoints.
  const of = (even: readonly string[], odd: string) => even.flatMap((url) => [url, odd]);
  const many = Array.from({ length: EACH }, () => of(hanging, others)).flat();
  const callbacks = [...many, ...of(Array(GOOD).fill(own), others), newcomer, newcomer];
  const jobs = await seedJobs(db.sql, callbacks, callbacks.length, 2);
  const announce = async (ids: readonly string[]) => {
    await settleJobs(db.sql, ids);
    for (const id of ids) await bus.publish(jobEvent(id, 'succeeded', new Date()));
  };
  await untilTrue(() => {
    try {
      bus.check();
      return true;
    } catch {
      return false;
    }
  }, 'the stream is there');

  const first = jobs.slice(0, many.length).filter((_, n) => n % 2 === 0);
  await announce(first);
  await untilTrue(() => hung.size >= HANGING, 'every endpoint that hangs has been tried', 60_000);
  expect(arrived.size).toBe(0);

  const good = jobs.slice(many.length);
  await announce(good);
  await untilTrue(
    () => good.every((id) => arrived.has(deliveryIdOf(id))),
    'those that answer have theirs',
    30_000,
  );
  // All of it while the others still hang.
  await untilTrue(async () => {
    const rows = await db.sql<{ n: bigint }[]>`select count(*) n from delivery_attempts`;
    return rows[0]?.n === BigInt(good.length);
  }, 'only those are recorded');
  const bad = await db.sql`select 1 from delivery_attempts where error is not null`;
  expect(bad).toHaveLength(0);
}, 150_000);

test('six attempts in all, with exponential backoff over roughly fifteen minutes, then abandoned; a replay begins anew', async () => {
  let calls = 0;
  const url = await listen((_, response) => {
    calls++;
    response.writeHead(500).end();
  });
  const account = await db.account();
  const { jobId } = await db.submitterWithWebhooks()(account.submission({ callbackUrl: url }));
  await settleJobs(db.sql, [jobId]);
  const id = deliveryIdOf(jobId);
  const recorded = async (attempts: number) => {
    let row: { state: string; attempts: number; pause: number } | undefined;
    await untilTrue(async () => {
      [row] = await db.sql<{ state: string; attempts: number; pause: number }[]>`
        select d.state, d.attempts,
               extract(epoch from d.due_at - max(a.at + a.milliseconds * interval '1 millisecond'))::float8 as pause
        from deliveries d left join delivery_attempts a on a.delivery_id = d.id where d.id = ${id} group by d.id`;
      return row?.attempts === attempts;
    }, `attempt ${attempts} is recorded`);
    return row as NonNullable<typeof row>;
  };
  let seconds = 0;
  for (let attempt = 1; attempt <= 5; attempt++) {
    const { state, pause } = await recorded(attempt);
    expect(state).toBe('pending');
    // ± 10 % by chance, and the time to record the answer.
    expect(pause).toBeGreaterThan(7.5 * 3 ** (attempt - 1) * 0.9);
    expect(pause).toBeLessThan(7.5 * 3 ** (attempt - 1) * 1.1 + 5);
    seconds += pause;
    // The clock advances to that moment.
    await db.sql`update deliveries set due_at = now() where id = ${id}`;
  }
  expect(seconds / 60).toBeGreaterThan(13);
  expect(seconds / 60).toBeLessThan(17);
  expect((await recorded(6)).state).toBe('abandoned');
  expect(calls).toBe(6);
  await db.sql`update deliveries set due_at = now() where id = ${id}`;
  await replayDelivery(db.sql, id);
  expect(await recorded(1)).toMatchObject({ state: 'pending' });
  expect(calls).toBe(7);
});
