import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { RENDERJOB_RESOURCE } from '@semblance/crds/gen/renderjobs';
import { JOB_SUBJECTS } from '@semblance/events/jobs';
import { createNatsBus } from '@semblance/events/nats-bus';
import { freePort } from '@semblance/local/process/ports';
import { startTcpProxy, type TcpProxy } from '@semblance/testkit/common/tcp-proxy';
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
import { startKubeProxy } from '@semblance/testkit/kube/kube-proxy';
import { testNats } from '@semblance/testkit/servers/shared';
import { startPostgres } from '@semblance/testkit/servers/start';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { runScript, sqlState } from './storage/sql.ts';

/** Time after which a call without an answer is given up: long after the control plane's own limit. */
const GIVEN_UP_MS = 40_000;

let system: TestSystem;
let dir: string;
let postgresPort: number;
let pg: Awaited<ReturnType<typeof startPostgres>>;
let natsLine: TcpProxy;
let kubeLine: TcpProxy;
let straightNats: string;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'semblance-faults-'));
  postgresPort = await freePort();
  pg = await startPostgres({ dataDir: join(dir, 'postgres'), port: postgresPort });
  const nats = await testNats();
  straightNats = nats.url;
  const natsUrl = new URL(nats.url);
  natsLine = await startTcpProxy({ host: natsUrl.hostname, port: Number(natsUrl.port) });
  natsUrl.port = String(natsLine.port);
  system = await startTestSystem(
    // Time limits like those in production, but longer than a machine stands still.
    {
      jobSweepMs: 500,
      database: { statementTimeoutMs: 8_000, deadlineMs: 9_000, connectMs: 8_000 },
    },
    {
      pg: { url: pg.url, close: async () => {} },
      nats: { url: natsUrl.href, close: nats.close },
      async kubeProxy(path) {
        const copy = join(dir, 'kubeconfig');
        kubeLine = await startKubeProxy(path, copy);
        return copy;
      },
    },
  );
  await untilTrue(async () => Object.values(await ready()).every(Boolean), 'the control plane is ready');
});
afterAll(async () => {
  await system.close();
  await Promise.all([natsLine.close(), kubeLine.close()]);
  await pg.stop();
  await rm(dir, { recursive: true });
});

const show = async (accountId: string) => {
  const { admin, asAdmin } = system.client;
  return (await asAdmin(admin.showAccount.bind(admin), { accountId })).account;
};
const ready = async () =>
  Object.fromEntries(
    await Promise.all(
      Object.entries(system.plane.ready).map(async ([name, check]) => [
        name,
        await Promise.resolve()
          .then(check)
          .then(
            (said) => said ?? true,
            () => false,
          ),
      ]),
    ),
  );

test('on a server that takes no writes it is not ready, and it is again on one that does', async () => {
  const [{ name } = {}] = await system.database.sql`select quote_ident(current_database()) as name`;
  /** As after a failover: new connections reach a standby, or the primary again. */
  const readOnly = (value: 'on' | 'off') =>
    system.database.sql.begin((tx) =>
      runScript(
        tx,
        `set transaction read write; alter database ${name} set default_transaction_read_only = ${value}`,
      ),
    );
  await readOnly('on');
  await system.database.sql`
    select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`;
  const refusal = async () => {
    const error = await Promise.resolve(system.plane.ready.postgres?.()).catch((error: Error) => error);
    return error instanceof Error ? sqlState(error.cause) : undefined;
  };
  await untilTrue(async () => (await refusal()) === '25006', 'it says that Postgres takes no writes');
  await readOnly('off');
  await untilTrue(async () => (await ready()).postgres === true, 'it says that Postgres is back');
});

test('Postgres killed and started again: calls fail with internal_error meanwhile, in time, and the job ends once', async () => {
  const { control, ask } = system.client;
  const { accountId, caller } = await makeAccount(system, 1);
  const { fileKey } = await upload(system, caller);
  const { id } = await ask(control.submitJob.bind(control), photoSwap(caller, fileKey));
  const renderJob = await untilRenderJob(system, id);

  process.kill(pg.pid, 'SIGKILL');
  await untilTrue(
    () =>
      ask(control.getBalance.bind(control), { caller }).then(
        () => false,
        () => true,
      ),
    'calls fail',
  );
  await succeed(system, renderJob);
  const began = Date.now();
  const late = { timeoutMs: GIVEN_UP_MS };
  const calls = await Promise.allSettled([
    ask(control.getJob.bind(control), { caller, jobId: id }, late),
    ask(control.submitJob.bind(control), photoSwap(caller, fileKey), late),
    ask(control.getPricing.bind(control), { caller: undefined }, late),
    show(accountId),
  ]);
  expect(calls.map((answer) => answer.status === 'rejected' && answer.reason.code)).toEqual(
    Array(4).fill('internal_error'),
  );
  // Each by the time limits of the control plane, not by the caller's patience.
  expect(Date.now() - began).toBeLessThan(GIVEN_UP_MS / 2);
  await untilTrue(async () => {
    const { postgres, nats, kubernetes } = await ready();
    return postgres === false && nats === true && kubernetes === true;
  }, 'it says that Postgres alone is away');
  await pg.stop();

  pg = await startPostgres({ dataDir: join(dir, 'postgres'), port: postgresPort });
  // Calls succeed again by themselves.
  await untilTrue(
    () =>
      ask(control.getBalance.bind(control), { caller }).then(
        () => true,
        () => false,
      ),
    'calls work',
  );
  const job = await untilJob(system, caller, id, ({ status }) => status === 'succeeded');
  expect(job.chargedMicros).toBe(40_000n);
  expect(await show(accountId)).toMatchObject({ balanceMicros: 960_000n, holdsMicros: 0n, ledgerOk: true });
  await untilTrue(async () => (await ready()).postgres === true, 'it says that Postgres is back');
});

test('NATS and the Kubernetes API away: submits are taken, and everything owed is paid when they are back', async () => {
  const { control, ask } = system.client;
  const { accountId, caller } = await makeAccount(system, 1);
  const { fileKey } = await upload(system, caller);
  for (const line of [natsLine, kubeLine]) line.set('refuse');
  const ids: string[] = [];
  for (let i = 0; i < 5; i++)
    ids.push((await ask(control.submitJob.bind(control), photoSwap(caller, fileKey))).id);
  await untilTrue(async () => {
    const { nats, kubernetes } = await ready();
    // Without NATS it still works, so a Service must keep sending it calls.
    return /^away, and events wait/.test(nats) && kubernetes === false;
  }, 'it says what is away');
  // Past the first two seconds, in which the process that took a submit pays by itself.
  await delay(2_500);
  expect((await system.database.sql`select 1 from outbox where job_id = any(${ids}::text[])`).length).toBe(
    10,
  );

  for (const line of [natsLine, kubeLine]) line.set('open');
  for (const id of ids) await succeed(system, await untilRenderJob(system, id));
  for (const id of ids) await untilJob(system, caller, id, ({ status }) => status === 'succeeded');
  expect(await show(accountId)).toMatchObject({ balanceMicros: 800_000n, holdsMicros: 0n, ledgerOk: true });

  const events = new Map<string, Set<string>>();
  const bus = createNatsBus({ url: straightNats, name: 'reader', logger: system.logger });
  const stop = new AbortController();
  const done = bus.consume({
    durable: 'reader',
    subjects: [JOB_SUBJECTS],
    signal: stop.signal,
    async handler({ data }) {
      const { job_id, status } = data as { job_id: string; status: string };
      events.set(job_id, (events.get(job_id) ?? new Set()).add(status));
    },
  });
  await untilTrue(
    () => ids.every((id) => events.get(id)?.has('queued') && events.get(id)?.has('succeeded')),
    'every job has told of its beginning and its end',
  );
  stop.abort();
  await done;
  await bus.close();
});

test('a RenderJob created by a process that died before it recorded it is found again, not made twice', async () => {
  const { control, ask } = system.client;
  const { caller } = await makeAccount(system, 1);
  const { fileKey } = await upload(system, caller);
  const { id } = await ask(control.submitJob.bind(control), photoSwap(caller, fileKey));
  const { metadata } = await untilRenderJob(system, id);
  const uid = async () =>
    (await system.database.sql`select renderjob_uid from jobs where id = ${id}`)[0]?.renderjob_uid;
  await untilTrue(async () => (await uid()) === metadata.uid, 'the uid is recorded');
  await system.database.sql`update jobs set renderjob_uid = null, renderjob_at = null where id = ${id}`;
  await system.database.sql`insert into outbox (kind, job_id, due_at) values ('renderjob', ${id}, now())`;
  await untilTrue(async () => (await uid()) === metadata.uid, 'the same uid is recorded again');
});

test('a job whose debt was lost gets its RenderJob all the same', async () => {
  const { control, ask } = system.client;
  const { caller } = await makeAccount(system, 1);
  const { fileKey } = await upload(system, caller);
  kubeLine.set('refuse');
  const { id } = await ask(control.submitJob.bind(control), photoSwap(caller, fileKey));
  await system.database.sql`delete from outbox where job_id = ${id}`;
  kubeLine.set('open');
  await untilRenderJob(system, id);
});

test('a stranger under the name of a job: the job fails, free of charge, and the stranger is left alone', async () => {
  const { control, ask } = system.client;
  const { accountId, caller } = await makeAccount(system, 1);
  const { fileKey } = await upload(system, caller);
  kubeLine.set('refuse');
  const { id } = await ask(control.submitJob.bind(control), photoSwap(caller, fileKey));
  const { namespace } = system.kubernetes;
  const stranger = await system.kube.create(RENDERJOB_RESOURCE, {
    metadata: { name: id, namespace },
    spec: {
      capability: 'face-swap-image',
      inputs: [
        { name: 'image', key: 'api/x' },
        { name: 'face', key: 'api/y' },
      ],
    },
  });
  kubeLine.set('open');
  const job = await untilJob(system, caller, id, ({ status }) => status === 'failed');
  expect(job).toMatchObject({ chargedMicros: 0n, error: { code: 'processing_failed' } });
  expect(await show(accountId)).toMatchObject({ holdsMicros: 0n, ledgerOk: true });
  const found = await system.kube.get(RENDERJOB_RESOURCE, { name: id, namespace });
  expect(found.metadata.uid).toBe(stranger.metadata.uid);
});

test('what happened while no control plane ran is caught up with: finished, deleted and hand-made RenderJobs', async () => {
  const { control, ask } = system.client;
  const { accountId, caller } = await makeAccount(system, 1);
  const { fileKey } = await upload(system, caller);
  const submit = async () => (await ask(control.submitJob.bind(control), photoSwap(caller, fileKey))).id;
  const [finished, deleted] = [await submit(), await submit()];
  const renderJobs = [await untilRenderJob(system, finished), await untilRenderJob(system, deleted)];
  await untilTrue(
    async () =>
      (
        await system.database
          .sql`select 1 from jobs where account_id = ${accountId} and renderjob_uid is null`
      ).length === 0,
    'the uids are recorded',
  );
  kubeLine.set('refuse');
  const { namespace } = system.kubernetes;
  if (renderJobs[0]) await succeed(system, renderJobs[0]);
  await system.kube.delete(RENDERJOB_RESOURCE, { name: deleted, namespace });
  await system.kube.create(RENDERJOB_RESOURCE, {
    metadata: { name: 'by-hand', namespace },
    spec: {
      capability: 'face-swap-image',
      inputs: [
        { name: 'image', key: 'api/x' },
        { name: 'face', key: 'api/y' },
      ],
    },
  });
  kubeLine.set('open');
  await untilJob(system, caller, finished, ({ status }) => status === 'succeeded');
  const job = await untilJob(system, caller, deleted, ({ status }) => status === 'failed');
  expect(job.error).toEqual({ code: 'processing_failed', message: 'The job was cancelled.' });
  expect(await show(accountId)).toMatchObject({ balanceMicros: 960_000n, holdsMicros: 0n, ledgerOk: true });
});
