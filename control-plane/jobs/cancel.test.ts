import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isKubeError } from '@semblance/common/kube/index';
import { RENDERJOB_RESOURCE, type RenderJob } from '@semblance/crds/gen/renderjobs';
import type { TcpProxy } from '@semblance/testkit/common/tcp-proxy';
import {
  connectTo,
  makeAccount,
  photoSwap,
  setStatus,
  startTestSystem,
  succeed,
  type TestClient,
  type TestSystem,
  untilJob,
  untilRenderJob,
  untilTrue,
  upload,
} from '@semblance/testkit/control-plane/control-plane';
import { startKubeProxy } from '@semblance/testkit/kube/kube-proxy';
import { afterAll, beforeAll, expect, test } from 'vitest';

const AGENT_FINALIZER = 'semblance.dev/agent-cleanup';
const CANCELLED = {
  status: 'failed',
  chargedMicros: 0n,
  outputUrl: undefined,
  error: { code: 'processing_failed', message: 'The job was cancelled.' },
};

let system: TestSystem;
let folder: string;
let line: TcpProxy;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'semblance-cancel-'));
  system = await startTestSystem(
    { jobSweepMs: 300 },
    {
      async kubeProxy(path) {
        const copy = join(folder, 'kubeconfig');
        line = await startKubeProxy(path, copy);
        return copy;
      },
    },
  );
});
afterAll(async () => {
  await system.close();
  await line.close();
  await rm(folder, { recursive: true });
});

async function submitted(client: TestClient = system.client) {
  const account = await makeAccount(system, 1);
  const { fileKey } = await upload(system, account.caller);
  const { id } = await client.ask(
    client.control.submitJob.bind(client.control),
    photoSwap(account.caller, fileKey),
  );
  return { ...account, id };
}

const cancel = async (
  { caller, id }: { caller: { keySha256: Buffer }; id: string },
  { control, ask } = system.client,
) => (await ask(control.cancelJob.bind(control), { caller, jobId: id })).job;

const ended = ({ caller, id }: { caller: { keySha256: Buffer }; id: string }) =>
  untilJob(system, caller, id, ({ status }) => status === 'failed' || status === 'succeeded');

const noted = async (id: string) =>
  untilTrue(
    async () =>
      (await system.database.sql`select 1 from jobs where id = ${id} and renderjob_uid is not null`).length >
      0,
    'the RenderJob is noted',
  );

const gone = (id: string) =>
  untilTrue(
    async () =>
      (await system.kube.find(RENDERJOB_RESOURCE, { name: id, namespace: system.kubernetes.namespace })) ===
      undefined,
    'the RenderJob is gone',
  );

/** Checks that the books agree, nothing is held, the hold was resolved once, and the usage entry has the reason. */
async function expectFreed({ accountId, id }: { accountId: string; id: string }, balanceMicros = 1_000_000n) {
  const { admin, asAdmin } = system.client;
  const { account } = await asAdmin(admin.showAccount.bind(admin), { accountId });
  expect(account).toMatchObject({ balanceMicros, holdsMicros: 0n, holdsOpen: 0, ledgerOk: true });
  const kinds = await system.database.sql`
    select kind from ledger_transfers where job_id = ${id} and hold_id is not null`;
  expect(kinds.map(({ kind }) => kind)).toEqual(['release']);
  const events = await system.database.sql`
    select count(*)::int as n from outbox where job_id = ${id} and kind = 'event' and status = 'failed'`;
  expect(events[0]?.n).toBeLessThanOrEqual(1);
  const { entries } = await asAdmin(admin.listUsage.bind(admin), { accountId, range: undefined, limit: 1 });
  expect(entries[0]).toMatchObject({ id, status: 'failed', reason: 'cancelled', chargedMicros: 0n });
}

/** An agent has it: the operator's finalizer keeps it until the work has stopped. */
async function running(id: string): Promise<RenderJob> {
  const renderJob = await untilRenderJob(system, id);
  expect(renderJob.metadata.finalizers).toContain(AGENT_FINALIZER);
  await noted(id);
  return setStatus(system, renderJob, { phase: 'Running', attempt: 1 });
}

/** As the operator does after the agent stopped: finalizers that the control plane removes meanwhile stay off. */
async function stopped(id: string) {
  for (;;) {
    const { metadata } = await untilRenderJob(system, id);
    const { name = '', namespace, resourceVersion, finalizers = [] } = metadata;
    const rest = finalizers.filter((finalizer) => finalizer !== AGENT_FINALIZER);
    try {
      await system.kube.mergePatch(
        RENDERJOB_RESOURCE,
        { name, namespace },
        { metadata: { resourceVersion, finalizers: rest } },
      );
      return;
    } catch (error) {
      if (isKubeError(error, 'not_found')) return;
      if (!isKubeError(error, 'conflict')) throw error;
    }
  }
}

test('a job that waits for an agent is cancelled: its RenderJob goes, then it ends, free of charge', async () => {
  const job = await submitted();
  await untilRenderJob(system, job.id);
  await noted(job.id);
  await cancel(job);
  expect(await ended(job)).toMatchObject({ id: job.id, ...CANCELLED });
  await gone(job.id);
  await expectFreed(job);
});

test('a job that runs ends when its work has stopped, not before; then its hold is released', async () => {
  const job = await submitted();
  await running(job.id);
  await untilJob(system, job.caller, job.id, ({ status }) => status === 'processing');
  expect(await cancel(job)).toMatchObject({ id: job.id, status: 'processing', chargedMicros: undefined });
  await untilTrue(
    async () => (await untilRenderJob(system, job.id)).metadata.deletionTimestamp !== undefined,
    'the RenderJob is to be deleted',
  );
  expect(await cancel(job)).toMatchObject({ status: 'processing' });
  await stopped(job.id);
  expect(await ended(job)).toMatchObject(CANCELLED);
  await gone(job.id);
  await expectFreed(job);
});

test('once cancelled, a success that comes all the same is charged nothing and given to nobody', async () => {
  const job = await submitted();
  const renderJob = await running(job.id);
  await cancel(job);
  await succeed(system, renderJob);
  await stopped(job.id);
  expect(await ended(job)).toMatchObject(CANCELLED);
  await expectFreed(job);
});

test('a job that has ended is answered as it is, and stays so', async () => {
  const job = await submitted();
  await succeed(system, await untilRenderJob(system, job.id));
  const before = await ended(job);
  expect(before.status).toBe('succeeded');
  expect(await cancel(job)).toEqual(before);
  expect(await ended(job)).toEqual(before);
  const failed = await submitted();
  await setStatus(system, await untilRenderJob(system, failed.id), {
    phase: 'Failed',
    failure: { code: 'face_not_detected', message: 'No face was found.' },
  });
  const end = await ended(failed);
  expect(await cancel(failed)).toEqual(end);
  expect(end.error?.code).toBe('face_not_detected');
});

test('cancelling and succeeding at the same moment has one outcome, and the books tell it', async () => {
  const jobs = await Promise.all(Array.from({ length: 12 }, () => submitted()));
  const outcomes = await Promise.all(
    jobs.map(async (job, i) => {
      const renderJob = await untilRenderJob(system, job.id);
      await noted(job.id);
      const success = succeed(system, renderJob);
      if (i % 3) await success;
      await Promise.all([cancel(job), cancel(job), success]).catch((error) => {
        // Its RenderJob was deleted first.
        if (!isKubeError(error, 'not_found', 'invalid')) throw error;
      });
      const end = await ended(job);
      if (end.status === 'failed') {
        expect(end).toMatchObject(CANCELLED);
        await expectFreed(job);
      } else {
        expect(end).toMatchObject({ chargedMicros: 40_000n, error: undefined });
        const { admin, asAdmin } = system.client;
        const { account } = await asAdmin(admin.showAccount.bind(admin), job);
        expect(account).toMatchObject({ balanceMicros: 960_000n, holdsMicros: 0n, ledgerOk: true });
      }
      expect(await cancel(job)).toEqual(end);
      return end.status;
    }),
  );
  expect(outcomes).toHaveLength(12);
});

test('cancelled a hundred times at once, it is cancelled once', async () => {
  const job = await submitted();
  await untilRenderJob(system, job.id);
  await noted(job.id);
  const answers = await Promise.all(Array.from({ length: 100 }, () => cancel(job)));
  expect(new Set(answers.map((answer) => answer?.id))).toEqual(new Set([job.id]));
  expect(await ended(job)).toMatchObject(CANCELLED);
  await expectFreed(job);
});

test('another account’s job, and one that is none, are not found; nothing happens to them', async () => {
  const job = await submitted();
  const stranger = await makeAccount(system, 1);
  for (const id of [job.id, 'job-none', 'job-00000000000000000000000000', '', "job-' or true --"])
    await expect(cancel({ caller: stranger.caller, id })).rejects.toMatchObject({ code: 'not_found' });
  const [row] = await system.database.sql`select cancel_requested_at from jobs where id = ${job.id}`;
  expect(row?.cancel_requested_at).toBeNull();
});

test('a job whose RenderJob is not made yet ends at once, and never gets one, whoever was to make it', async () => {
  line.set('refuse');
  const job = await submitted();
  // Past the time after which any process may take over the first one's debts.
  const other = await system.startPlane();
  await system.database.sql`update outbox set due_at = now() where job_id = ${job.id}`;
  expect(await cancel(job, connectTo(other.port, system.adminToken))).toMatchObject({
    id: job.id,
    ...CANCELLED,
  });
  await expectFreed(job);
  line.set('open');
  await untilTrue(
    async () => (await system.database.sql`select 1 from outbox where job_id = ${job.id}`).length === 0,
    'everything owed is paid',
  );
  await gone(job.id);
  expect(await cancel(job)).toMatchObject(CANCELLED);
});

test('a RenderJob made too late, by a process that was killed before it noticed, is found and deleted', async () => {
  const job = await submitted();
  const renderJob = await untilRenderJob(system, job.id);
  await noted(job.id);
  await cancel(job);
  await ended(job);
  await gone(job.id);
  const { name, namespace, labels, finalizers } = renderJob.metadata;
  const { spec } = renderJob;
  await system.kube.create(RENDERJOB_RESOURCE, { metadata: { name, namespace, labels, finalizers }, spec });
  // The row of a job whose RenderJob was never recorded.
  await system.database.sql`update jobs set renderjob_uid = null where id = ${job.id}`;
  await gone(job.id);
  await expectFreed(job);
});

test('the Kubernetes API away and the control plane replaced: the cancellation is carried out all the same', async () => {
  const job = await submitted();
  await running(job.id);
  line.set('refuse');
  expect((await cancel(job))?.status).toMatch(/queued|processing/);
  await system.plane.close();
  const plane = await system.startPlane();
  const client = connectTo(plane.port, system.adminToken);
  line.set('open');
  await untilTrue(
    async () => (await untilRenderJob(system, job.id)).metadata.deletionTimestamp !== undefined,
    'the RenderJob is to be deleted',
  );
  await stopped(job.id);
  const end = await untilJob({ client }, job.caller, job.id, ({ status }) => status === 'failed');
  expect(end).toMatchObject(CANCELLED);
  await gone(job.id);
});
