import { once } from 'node:events';
import { setTimeout as delay } from 'node:timers/promises';
import type { ClientDuplexStream } from '@grpc/grpc-js';
import { createClient } from '@semblance/common/grpc/client';
import { type GrpcServer, startGrpcServer } from '@semblance/common/grpc/server';
import type { ObjectStore } from '@semblance/objects/store';
import {
  ControlServiceClient,
  ControlServiceService,
  type GetJobRequest,
  type GetJobResult,
  type ReadJobsRequest,
  type ReadJobsResponse,
} from '@semblance/proto/semblance/control/v1/control';
import { type TestDatabase, testDatabase } from '@semblance/testkit/control-plane/storage';
import { pino } from 'pino';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { createGate, type Gate } from '../accounts/gate.ts';
import { createJobView } from '../jobs/job-view.ts';
import { createMessageStreams, type MessageStreams } from './message-streams.ts';
import { readTogether } from './together.ts';

let db: TestDatabase;
let server: GrpcServer | undefined;
let client: ControlServiceClient | undefined;
const lines: string[] = [];
const answered: string[] = [];
let asked = 0;
beforeAll(async () => {
  db = await testDatabase();
});
afterAll(() => db.close());
afterEach(async () => {
  client?.close();
  await server?.close(0);
  lines.length = 0;
  answered.length = 0;
});

type Stream = ClientDuplexStream<ReadJobsRequest, ReadJobsResponse>;

async function serve(
  gate: Gate = createGate(db.database),
): Promise<{ stream: Stream; streams: MessageStreams<GetJobRequest, GetJobResult> }> {
  const streams = createMessageStreams({
    method: 'ReadJobs',
    answer: readTogether(gate, createJobView({ objects: {} as ObjectStore })),
    logger: pino({ level: 'error' }, { write: (line: string) => void lines.push(line) }),
    // In seconds, no longer than since the request.
    onAnswered: (seconds, code) =>
      answered.push(`${code} ${seconds >= 0 && seconds * 1000 <= performance.now() - asked}`),
  });
  server = await startGrpcServer({
    listen: { host: '127.0.0.1', port: 0 },
    services: [
      {
        name: 'semblance.control.v1.ControlService',
        definition: ControlServiceService,
        implementation: { readJobs: streams.handle },
      },
    ],
  });
  client = createClient(ControlServiceClient, `127.0.0.1:${server.port}`);
  const stream = client.readJobs();
  // The end of a test cuts open streams.
  stream.on('error', () => {});
  return { stream, streams };
}

async function ask(stream: Stream, requests: GetJobRequest[], number = 1): Promise<ReadJobsResponse> {
  asked = performance.now();
  stream.write({ number, requests, requestId: 'r-1' });
  const [response] = await once(stream, 'data');
  return response as ReadJobsResponse;
}

test('each read of a message has its own outcome and its own place in the rate limit', async () => {
  const [owner, stranger] = [await db.account(10, 3), await db.account()];
  const { jobId } = await db.submitter()(owner.submission());
  const { stream } = await serve();
  const { caller } = owner;
  const { number, results } = await ask(
    stream,
    [
      { caller, jobId },
      { caller: stranger.caller, jobId },
      { caller: undefined, jobId },
      { caller, jobId: 'job-none' },
      { caller, jobId: "job-'; drop table jobs; --" },
      { caller, jobId },
    ],
    7,
  );
  expect(number).toBe(7);
  expect(
    results.map(({ outcome, rateLimit }) => [
      outcome?.$case === 'job' ? `${outcome.value.id} ${outcome.value.status}` : outcome?.value.code,
      rateLimit.replace(/,reset=\d+$/, ''),
    ]),
  ).toEqual([
    [`${jobId} queued`, 'limit=3,remaining=2'],
    ['not_found', 'limit=1000000,remaining=999999'],
    ['unauthorized', ''],
    ['not_found', 'limit=3,remaining=1'],
    ['not_found', 'limit=3,remaining=0'],
    ['rate_limited', 'limit=3,remaining=0'],
  ]);
  expect(answered).toEqual(['ok true']);
  expect(lines).toEqual([]);
});

test('a message that fails is refused read by read, logged once, and the stream goes on', async () => {
  const { caller } = await db.account();
  const real = createGate(db.database);
  let failing = true;
  const gate: Gate = {
    ...real,
    admitAll: (asks) => (failing ? Promise.reject(new Error('the gate is stuck')) : real.admitAll(asks)),
  };
  const { stream } = await serve(gate);
  const requests = [
    { caller, jobId: 'a' },
    { caller, jobId: 'b' },
  ];
  const { results } = await ask(stream, requests);
  expect(results.map(({ outcome }) => outcome?.$case === 'refusal' && outcome.value.code)).toEqual([
    'internal_error',
    'internal_error',
  ]);
  expect(JSON.stringify(results)).not.toContain('stuck');
  expect(lines).toHaveLength(1);
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({ requestId: 'r-1', method: 'ReadJobs' });
  failing = false;
  expect((await ask(stream, requests, 2)).results).toHaveLength(2);
  expect(answered).toEqual(['internal_error true', 'ok true']);
});

test('when it ends, a stream answers what it took and leaves the rest to another', async () => {
  const { caller } = await db.account();
  const real = createGate(db.database);
  let open = () => {};
  const held = new Promise<void>((resolve) => {
    open = resolve;
  });
  let taken = 0;
  const gate: Gate = {
    ...real,
    admitAll(asks) {
      taken++;
      return held.then(() => real.admitAll(asks));
    },
  };
  const { stream, streams } = await serve(gate);
  const heard: number[] = [];
  stream.on('data', ({ number }: ReadJobsResponse) => heard.push(number));
  const requests = [{ caller, jobId: 'a' }];
  stream.write({ number: 1, requests, requestId: '' });
  stream.write({ number: 2, requests, requestId: '' });
  await expect.poll(() => taken, { timeout: 20_000 }).toBe(2);
  streams.end();
  stream.write({ number: 3, requests, requestId: '' });
  await delay(100);
  expect(heard).toEqual([]);
  const over = once(stream, 'end');
  const closed = server?.close(25_000);
  open();
  await over;
  expect(heard.sort()).toEqual([1, 2]);
  await closed;
});

test('a stream nobody uses ends at once, and one whose gateway is gone is forgotten', async () => {
  const { caller } = await db.account();
  const { stream, streams } = await serve();
  await ask(stream, [{ caller, jobId: 'a' }]);
  const gone = client?.readJobs() as Stream;
  await ask(gone, [{ caller, jobId: 'a' }]);
  gone.on('error', () => {});
  gone.cancel();
  await delay(50);
  const over = once(stream, 'end');
  const before = performance.now();
  streams.end();
  await over;
  // Not by the server's limit for open streams.
  await server?.close(25_000);
  expect(performance.now() - before).toBeLessThan(20_000);
});
