import type { ClientDuplexStream } from '@grpc/grpc-js';
import { newId } from '@semblance/common/ids';
import type {
  JobState,
  WatchJobsRequest,
  WatchJobsResponse,
  WatchOpen,
} from '@semblance/proto/semblance/control/v1/control';
import {
  connectTo,
  makeAccount,
  photoSwap,
  setStatus,
  startTestSystem,
  succeed,
  type TestClient,
  type TestSystem,
  untilRenderJob,
  untilTrue,
  upload,
} from '@semblance/testkit/control-plane/control-plane';
import { Registry } from 'prom-client';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';

const registry = new Registry();
let system: TestSystem;
/** Another process with the same database, events and resources. */
let second: TestClient;

beforeAll(async () => {
  system = await startTestSystem({ registry });
  second = connectTo((await system.startPlane({ registry: new Registry() })).port, system.adminToken);
});
afterAll(() => system.close());
// Watches of one test must not count in the next.
afterEach(() => untilTrue(async () => (await watched()) === '0', 'nothing is watched'));

const watched = async () =>
  (await registry.getSingleMetricAsString('semblance_jobs_watched')).match(/ (\d+)$/m)?.[1];

type Stream = ClientDuplexStream<WatchJobsRequest, WatchJobsResponse>;

function follow({ control }: TestClient) {
  const stream: Stream = control.watchJobs();
  const heard: WatchJobsResponse[] = [];
  stream.on('data', (response: WatchJobsResponse) => heard.push(response));
  stream.on('error', () => {});
  const of = <Case extends 'opened' | 'refused' | 'state'>(watch: number, $case: Case) =>
    heard.filter((one) => one.watch === watch && one.event?.$case === $case).map((one) => one.event?.value);
  return {
    stream,
    open: (ask: Partial<WatchOpen>) =>
      stream.write({
        request: {
          $case: 'open',
          value: { watch: 1, jobId: '', caller: undefined, accountId: '', keyId: '', requestId: 'r', ...ask },
        },
      }),
    close: (watch: number) => stream.write({ request: { $case: 'close', value: watch } }),
    states: (watch: number) => of(watch, 'state') as JobState[],
    refusals: (watch: number) => of(watch, 'refused') as { refusal: { code: string }; rateLimit: string }[],
    opened: (watch: number) => of(watch, 'opened') as { accountId: string; rateLimit: string }[],
    heard,
  };
}

async function submitted(caller: { keySha256: Buffer }) {
  const { control, ask } = system.client;
  const { fileKey } = await upload(system, caller);
  return ask(control.submitJob.bind(control), photoSwap(caller, fileKey));
}

const progressOf = ({ job, progress }: JobState) =>
  `${job?.status} ${progress?.attempt ?? '-'} ${progress?.percent ?? '-'}`;

test('a watch tells the present state and every change of it, through whichever process', async () => {
  const { caller, accountId, keyId } = await makeAccount(system);
  const { id } = await submitted(caller);
  const watches = [follow(system.client), follow(second)];
  for (const watch of watches) watch.open({ jobId: id, caller });
  for (const watch of watches) {
    await untilTrue(() => watch.states(1).length > 0, 'the present state');
    expect(watch.opened(1)).toEqual([{ accountId, keyId, rateLimit: expect.stringContaining('limit=') }]);
    expect(watch.states(1)[0]).toMatchObject({ job: { id, status: 'queued' }, begun: false });
  }

  const renderJob = await untilRenderJob(system, id);
  const ready = (reason: string) => [
    {
      type: 'Ready',
      status: 'False' as const,
      reason,
      message: '-',
      lastTransitionTime: new Date().toISOString(),
    },
  ];
  await setStatus(system, renderJob, {
    phase: 'Pending',
    queuePosition: 3,
    queueLength: 5,
    conditions: ready('SlotsBusy'),
  });
  for (const watch of watches) {
    await untilTrue(() => watch.states(1).at(-1)?.queue !== undefined, 'the place');
    expect(watch.states(1).at(-1)?.queue).toMatchObject({ position: 3, of: 5, reason: 'busy' });
  }
  const attempt = {
    phase: 'Running',
    attempt: 1,
    queuePosition: null as unknown as undefined,
    queueLength: null as unknown as undefined,
  } as const;
  for (const progress of ['0%', '41%']) {
    const etaSeconds = progress === '41%' ? 7 : undefined;
    await setStatus(system, renderJob, {
      ...attempt,
      progress,
      ...(etaSeconds ? { etaSeconds } : {}),
      conditions: ready('Running'),
    });
    for (const watch of watches) {
      const percent = Number.parseInt(progress, 10);
      await untilTrue(() => watch.states(1).at(-1)?.progress?.percent === percent, progress);
      expect(watch.states(1).at(-1)?.progress?.etaSeconds).toBe(etaSeconds);
    }
  }
  await succeed(system, renderJob);
  for (const watch of watches) {
    await untilTrue(() => watch.states(1).at(-1)?.job?.status === 'succeeded', 'the end');
    const last = watch.states(1).at(-1);
    expect(last).toMatchObject({ begun: true, job: { chargedMicros: 40_000n } });
    expect([last?.progress, last?.queue]).toEqual([undefined, undefined]);
    const told = watch.states(1).map(progressOf);
    expect(told, 'nothing is told twice').toEqual([...new Set(told.slice(0, 1)), ...told.slice(1)]);
    watch.stream.end();
  }
});

test('jobs of others, unknown ones and unknown keys are refused one by one', async () => {
  const [mine, other] = [await makeAccount(system), await makeAccount(system)];
  const { id } = await submitted(mine.caller);
  const watch = follow(system.client);
  watch.open({ watch: 1, jobId: id, caller: other.caller });
  watch.open({ watch: 2, jobId: newId('job-'), caller: other.caller });
  watch.open({ watch: 3, jobId: "' or 1=1", caller: other.caller });
  watch.open({ watch: 4, jobId: id, caller: { keySha256: Buffer.alloc(32, 1) } });
  watch.open({ watch: 5, jobId: id, accountId: other.accountId });
  watch.open({ watch: 6, jobId: id, caller: mine.caller });
  await untilTrue(() => watch.states(6).length > 0, 'the one that may');
  await untilTrue(() => [1, 2, 3, 4, 5].every((n) => watch.refusals(n).length === 1), 'the refusals');
  expect([1, 2, 3, 4, 5].map((n) => watch.refusals(n)[0]?.refusal.code)).toEqual([
    'not_found',
    'not_found',
    'not_found',
    'unauthorized',
    'not_found',
  ]);
  expect(watch.refusals(1)[0]?.rateLimit).toContain('limit=');
  expect([1, 2, 3, 4, 5].flatMap((n) => watch.states(n))).toEqual([]);
  watch.stream.end();
});

test('a watch that is opened again by its account is not counted, and closed ones hear nothing', async () => {
  const { caller, accountId } = await makeAccount(system);
  const { id } = await submitted(caller);
  const watch = follow(system.client);
  watch.open({ watch: 1, jobId: id, accountId });
  watch.open({ watch: 2, jobId: id, caller });
  await untilTrue(() => watch.states(1).length > 0 && watch.states(2).length > 0, 'both states');
  expect(watch.opened(1)[0]?.rateLimit).toBe('');
  watch.close(1);
  // Messages of the stream are handled in order: this refusal closes the first watch.
  watch.open({ watch: 3, jobId: newId('job-'), caller });
  await untilTrue(() => watch.refusals(3).length === 1, 'the refusal');
  const before = watch.states(1).length;
  const renderJob = await untilRenderJob(system, id);
  await succeed(system, renderJob);
  await untilTrue(() => watch.states(2).at(-1)?.job?.status === 'succeeded', 'the end');
  expect(watch.states(1)).toHaveLength(before);
  watch.stream.end();
});

test('a change that nobody told of is found all the same', async () => {
  const { caller } = await makeAccount(system);
  const { id } = await submitted(caller);
  const watch = follow(system.client);
  watch.open({ jobId: id, caller });
  await untilTrue(() => watch.states(1).length > 0, 'the present state');
  // As if the event had been lost and the RenderJob were not visible.
  await system.database.sql`update jobs set status = 'processing', processing_at = now() where id = ${id}`;
  await untilTrue(() => watch.states(1).at(-1)?.job?.status === 'processing', 'the sweep');
  watch.stream.end();
});

test('a watch that is refused as soon as it is opened leaves nothing behind', async () => {
  const [mine, other] = [await makeAccount(system), await makeAccount(system)];
  const { id } = await submitted(mine.caller);
  const watch = follow(system.client);
  watch.open({ jobId: id, caller: mine.caller });
  await untilTrue(() => watch.states(1).length > 0, 'the present state');
  const refused = follow(system.client);
  refused.open({ jobId: id, accountId: other.accountId });
  await untilTrue(() => refused.refusals(1).length === 1, 'the refusal');
  watch.close(1);
  await untilTrue(async () => (await watched()) === '0', 'nothing is watched any more');
  for (const { stream } of [watch, refused]) stream.end();
});

test('a stream that breaks leaves nothing behind', async () => {
  const { caller } = await makeAccount(system);
  const { id } = await submitted(caller);
  const watch = follow(system.client);
  watch.open({ jobId: id, caller });
  await untilTrue(() => watch.states(1).length > 0, 'the present state');
  expect(await watched()).toBe('1');
  watch.stream.cancel();
  await untilTrue(async () => (await watched()) === '0', 'nothing is watched any more');
});
