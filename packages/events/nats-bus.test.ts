import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { silentLogger } from '@semblance/common/logging';
import { natsOptions } from '@semblance/common/nats-url';
import { createGuard } from '@semblance/common/process/guard';
import { natsService } from '@semblance/local/nats';
import { freePort } from '@semblance/local/process/ports';
import { resolveTools } from '@semblance/local/toolchain/toolchain';
import { testNats } from '@semblance/testkit/servers/shared';
import { startNats, startService } from '@semblance/testkit/servers/start';
import { connect } from 'nats';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { type DeliveredEvent, type EventBus, EventsUnavailableError, RedeliverLater } from './bus.ts';
import { JOB_SUBJECTS, jobEvent, jobSubject, parseJobEvent } from './jobs.ts';
import { createNatsBus } from './nats-bus.ts';

const logger = silentLogger();
const until = async (check: () => boolean, what: string) => {
  const deadline = Date.now() + 30_000;
  while (!check()) {
    if (Date.now() > deadline) throw new Error(`not in time: ${what}`);
    await delay(10);
  }
};
const ready = async (bus: EventBus) => {
  await until(() => {
    try {
      bus.check();
      return true;
    } catch {
      return false;
    }
  }, 'the bus is connected');
  return bus;
};

let nats: Awaited<ReturnType<typeof testNats>>;
let bus: EventBus;
beforeAll(async () => {
  nats = await testNats();
  bus = await ready(createNatsBus({ url: nats.url, name: 'test', logger, publishTimeoutMs: 30_000 }));
});
afterAll(async () => {
  await bus.close();
  await nats.close();
});

const consumers: { stop: AbortController; done: Promise<void> }[] = [];
afterEach(async () => {
  for (const { stop } of consumers) stop.abort();
  await Promise.all(consumers.splice(0).map(({ done }) => done));
});
function consume(durable: string, handler: (event: DeliveredEvent) => Promise<void>, more = {}) {
  const stop = new AbortController();
  const done = bus.consume({ durable, subjects: [JOB_SUBJECTS], handler, signal: stop.signal, ...more });
  consumers.push({ stop, done });
}
/** Resolves when the server knows the consumer, so that it receives all later events. */
async function subscribed(durable: string) {
  const connection = await connect({ ...natsOptions(nats.url) });
  try {
    const manager = await connection.jetstreamManager();
    await expect.poll(() => manager.consumers.info('SEMBLANCE_JOBS', durable).catch(() => null)).toBeTruthy();
  } finally {
    await connection.close();
  }
}

test('an event published twice under its id is stored once and read as it was written', async () => {
  const event = jobEvent('job-1', 'queued', new Date('2026-01-01T00:00:00Z'));
  await bus.publish(event);
  await bus.publish(event);
  await bus.publish(jobEvent('job-1', 'failed', new Date('2026-01-01T00:00:01Z')));
  const seen: DeliveredEvent[] = [];
  consume('twice', async (got) => void seen.push(got), { subjects: [jobSubject('job-1')] });
  await until(() => seen.length >= 2, 'both events');
  await delay(100);
  expect(seen.map(({ id, delivery }) => [id, delivery])).toEqual([
    ['job-1.queued', 1],
    ['job-1.failed', 1],
  ]);
  expect(parseJobEvent(seen[0]?.data)).toEqual({
    event: 'job.queued',
    job_id: 'job-1',
    status: 'queued',
    at: '2026-01-01T00:00:00.000Z',
  });
});

test('a handler that throws has the event again, when it says; the others are not held up', async () => {
  const attempts: number[] = [];
  const others: string[] = [];
  consume(
    'again',
    async ({ id, delivery }) => {
      if (id !== 'bad.queued') return void others.push(id);
      attempts.push(delivery);
      if (delivery === 1) throw new RedeliverLater(50);
      if (delivery === 2) throw new Error('fault');
    },
    { from: 'new' },
  );
  await subscribed('again');
  for (const job of ['bad', 'x', 'y', 'z']) await bus.publish(jobEvent(job, 'queued', new Date()));
  await until(() => others.length === 3 && attempts.length === 3, 'all events');
  expect(attempts).toEqual([1, 2, 3]);
});

test('a message that is not JSON is passed over, once and for good', async () => {
  const raw = await connect({ ...natsOptions(nats.url) });
  const seen: string[] = [];
  consume('odd', async ({ subject }) => void seen.push(subject), { from: 'new' });
  await subscribed('odd');
  await raw.jetstream().publish(jobSubject('odd', 'queued'), '{not json');
  await bus.publish(jobEvent('even', 'queued', new Date()));
  await until(() => seen.length > 0, 'the good one');
  await delay(700);
  expect(seen).toEqual(['semblance.jobs.even.queued']);
  await raw.close();
});

test('two consumers of one name share the events', async () => {
  const seen: [string[], string[]] = [[], []];
  for (const own of seen)
    consume(
      'shared',
      async ({ id }) => {
        own.push(id);
        await delay(5);
      },
      { from: 'new', concurrency: 1 },
    );
  await subscribed('shared');
  await Promise.all(
    Array.from({ length: 40 }, (_, i) => bus.publish(jobEvent(`shared-${i}`, 'queued', new Date()))),
  );
  await until(() => seen.flat().length >= 40, 'all events');
  expect(new Set(seen.flat()).size).toBe(40);
  expect(seen.flat()).toHaveLength(40);
});

test('a server that goes, with all it had, and comes back: publishing fails meanwhile and works again', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'semblance-nats-'));
  const binary = (await resolveTools(['nats-server']))['nats-server'];
  const port = await freePort();
  // Both folders share one password, so the second server equals the first with all its data lost.
  for (const name of ['1', '2']) {
    await mkdir(join(dir, name));
    await writeFile(join(dir, name, 'password'), 'secret');
  }
  const early = createNatsBus({ url: `nats://semblance:secret@127.0.0.1:${port}`, name: 'early', logger });
  try {
    await expect(early.publish(jobEvent('a', 'queued', new Date()))).rejects.toThrow(EventsUnavailableError);
    let server = await startNats({ binary, dir: join(dir, '1'), port, durable: false });
    await ready(early);
    await early.publish(jobEvent('a', 'queued', new Date()));
    await server.stop();
    await expect(early.publish(jobEvent('b', 'queued', new Date()))).rejects.toThrow(EventsUnavailableError);
    server = await startNats({ binary, dir: join(dir, '2'), port, durable: false });
    const deadline = Date.now() + 60_000;
    while (
      !(await early.publish(jobEvent('b', 'queued', new Date())).then(
        () => true,
        () => false,
      ))
    ) {
      if (Date.now() > deadline) throw new Error('publishing does not work again');
      await delay(50);
    }
    await early.close();
    await server.stop();
  } finally {
    await early.close();
    await rm(dir, { recursive: true, force: true });
  }
});

test('a server that does not know the password, or cannot be reached, is told apart', async () => {
  const reasonFor = async (url: string, why: RegExp) => {
    const waiting = createNatsBus({ url, name: 'waiting', logger });
    await expect.poll(() => reason(waiting)).toMatch(why);
    await waiting.close();
  };
  const wrong = new URL(nats.url);
  wrong.password = 'wrong';
  await reasonFor(wrong.href, /^not connected to NATS: .*authorization violation/i);
  await reasonFor(`nats://127.0.0.1:${await freePort()}`, /^not connected to NATS: .*refused/i);
});

test('a server without JetStream is named as such', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'semblance-nats-bare-'));
  const binary = (await resolveTools(['nats-server']))['nats-server'];
  const port = await freePort();
  await writeFile(join(dir, 'bare.conf'), `listen: "127.0.0.1:${port}"\n`);
  const launch = async () => ({ command: binary, args: ['--config', join(dir, 'bare.conf')] });
  const guard = createGuard();
  const spec = { ...natsService({ binary, dir, port }), launch };
  const server = await startService({ spec, guard, logFile: join(dir, 'nats.log') });
  const waiting = createNatsBus({ url: `nats://127.0.0.1:${port}`, name: 'waiting', logger });
  await expect.poll(() => reason(waiting)).toMatch(/^the event stream is not ready: .*jetstream/i);
  await waiting.close();
  await server.stop();
  await guard.close();
  await rm(dir, { recursive: true, force: true });
});

function reason(of: EventBus): string {
  try {
    of.check();
    return '';
  } catch (error) {
    return (error as Error).message;
  }
}

test('a stream that an earlier release made with other settings is brought up to date', async () => {
  const own = await testNats();
  const raw = await connect({ ...natsOptions(own.url) });
  const manager = await raw.jetstreamManager();
  await manager.streams.add({ name: 'SEMBLANCE_JOBS', subjects: ['semblance.old.>'], max_bytes: 1_048_576 });
  const late = await ready(createNatsBus({ url: own.url, name: 'late', logger }));
  await late.publish(jobEvent('a', 'queued', new Date()));
  expect((await manager.streams.info('SEMBLANCE_JOBS')).config).toMatchObject({
    subjects: [JOB_SUBJECTS],
    max_bytes: -1,
  });
  await late.close();
  await raw.close();
  await own.close();
});

test('a consumer that is stopped while it begins ends, at whatever point of its beginning', async () => {
  for (let ms = 0; ms < 20; ms++) {
    consume(`brief-${ms}`, async () => {});
    await delay(ms);
    for (const { stop } of consumers) stop.abort();
    await Promise.all(consumers.splice(0).map(({ done }) => done));
  }
});

test('what is no job event is told', () => {
  for (const data of [null, 1, {}, { status: 'lost', job_id: 'a', at: '' }, { status: 'queued', at: '' }])
    expect(() => parseJobEvent(data)).toThrow(TypeError);
});
