import { setTimeout as delay } from 'node:timers/promises';
import { AGENT_CLEANUP_FINALIZER, SETTLEMENT_FINALIZER } from '@semblance/common/finalizers';
import { newId } from '@semblance/common/ids';
import { RENDERJOB_RESOURCE } from '@semblance/crds/gen/renderjobs';
import { watchLag } from '@semblance/testkit/common/lag';
import {
  connectTo,
  makeAccount,
  photoSwap,
  setStatus,
  startTestSystem,
  succeed,
  type TestSystem,
  untilJob,
  untilRenderJob,
  untilTrue,
  upload,
} from '@semblance/testkit/control-plane/control-plane';
import { afterAll, beforeAll, expect, test } from 'vitest';

let system: TestSystem;
// No periodic scan helps.
beforeAll(async () => {
  system = await startTestSystem({ jobSweepMs: 600_000 });
});
afterAll(() => system.close());

async function submitted(client = system.client) {
  const account = await makeAccount({ client }, 1);
  const { fileKey } = await upload({ client, objects: system.objects }, account.caller);
  const { control, ask } = client;
  const { id } = await ask(control.submitJob.bind(control), photoSwap(account.caller, fileKey));
  const renderJob = await untilRenderJob(system, id);
  const ref = { name: id, namespace: system.kubernetes.namespace };
  return {
    ...account,
    id,
    renderJob,
    ref,
    find: () => found(ref),
    remove: () => system.kube.delete(RENDERJOB_RESOURCE, ref),
    setFinalizers: (finalizers: string[]) =>
      system.kube.mergePatch(RENDERJOB_RESOURCE, ref, { metadata: { finalizers } }),
    untilGone: () => untilTrue(async () => !(await found(ref)), `${id} is gone`),
  };
}
const found = (ref: { name: string; namespace: string }) => system.kube.find(RENDERJOB_RESOURCE, ref);

const jobRow = async (id: string) =>
  (await system.database.sql`select status, reason, charged_micros from jobs where id = ${id}`)[0];

const booksOf = async (accountId: string, { admin, asAdmin } = system.client) =>
  (await asAdmin(admin.showAccount.bind(admin), { accountId })).account;

test('a RenderJob is kept until its job is settled, and let go by itself afterwards', async () => {
  const job = await submitted();
  expect(job.renderJob.metadata.finalizers).toEqual([SETTLEMENT_FINALIZER, AGENT_CLEANUP_FINALIZER]);
  await succeed(system, job.renderJob);
  // The operator's finalizer too, in one write: a single attempt that brought the result leaves nothing to clean
  // up.
  await untilTrue(async () => ((await job.find())?.metadata.finalizers ?? []).length === 0, 'it is let go');
  expect(await jobRow(job.id)).toMatchObject({ status: 'succeeded' });
  await job.remove();
  await job.untilGone();
  expect(await jobRow(job.id)).toMatchObject({ status: 'succeeded', charged_micros: 40_000n });
});

test('deleted before any agent had it, it ends its job and goes, in less than two seconds', async () => {
  const job = await submitted();
  const lag = watchLag(() => Promise.all([job.find(), jobRow(job.id)]));
  const began = performance.now();
  await job.remove();
  await job.untilGone();
  const elapsed = performance.now() - began;
  expect(elapsed - (await lag.stop())).toBeLessThan(2_000);
  expect(await jobRow(job.id)).toMatchObject({ status: 'failed', reason: 'cancelled', charged_micros: 0n });
  expect(await booksOf(job.accountId)).toMatchObject({
    balanceMicros: 1_000_000n,
    holdsMicros: 0n,
    ledgerOk: true,
  });
});

test('deleted while an agent has it, it ends its job only when the operator has let go of it', async () => {
  const job = await submitted();
  await job.setFinalizers([SETTLEMENT_FINALIZER, AGENT_CLEANUP_FINALIZER]);
  await setStatus(system, job.renderJob, { phase: 'Running', attempt: 1 });
  await untilJob(system, job.caller, job.id, ({ status }) => status === 'processing');
  await job.remove();
  await delay(300);
  expect(await jobRow(job.id)).toMatchObject({ status: 'processing' });
  await job.setFinalizers([SETTLEMENT_FINALIZER]);
  await job.untilGone();
  expect(await jobRow(job.id)).toMatchObject({ status: 'failed', reason: 'cancelled', charged_micros: 0n });
});

test('what earlier attempts may have left is for the operator to clean up: its finalizer is not taken off for it', async () => {
  const job = await submitted();
  await succeed(system, job.renderJob, { attempt: 2 });
  await untilTrue(async () => (await jobRow(job.id))?.status === 'succeeded', 'the job is settled');
  await delay(300);
  expect((await job.find())?.metadata.finalizers).toEqual([SETTLEMENT_FINALIZER, AGENT_CLEANUP_FINALIZER]);
  await job.setFinalizers([SETTLEMENT_FINALIZER]);
  await untilTrue(async () => ((await job.find())?.metadata.finalizers ?? []).length === 0, 'it is let go');
});

test('a result that comes while it is being deleted counts', async () => {
  const job = await submitted();
  await setStatus(system, job.renderJob, { phase: 'Stopping', attempt: 2 });
  await job.remove();
  await succeed(system, job.renderJob, { attempt: 2 });
  await untilTrue(
    async () => (await jobRow(job.id))?.status === 'succeeded',
    'the job is settled by its result',
  );
  await job.setFinalizers([SETTLEMENT_FINALIZER]);
  await job.untilGone();
});

test('finished and deleted while no control plane ran: settled with its result, charged, and gone', async () => {
  const [finished, waiting, running] = [await submitted(), await submitted(), await submitted()];
  await running.setFinalizers([SETTLEMENT_FINALIZER, AGENT_CLEANUP_FINALIZER]);
  await setStatus(system, running.renderJob, { phase: 'Running', attempt: 1 });
  await system.plane.close();
  await succeed(system, finished.renderJob);
  for (const { remove } of [finished, waiting, running]) await remove();
  // The operator, which goes on, stops the work and releases it.
  await running.setFinalizers([SETTLEMENT_FINALIZER]);
  expect((await finished.find())?.metadata.deletionTimestamp).toBeDefined();

  const plane = await system.startPlane();
  const client = connectTo(plane.port, system.adminToken);
  for (const { untilGone } of [finished, waiting, running]) await untilGone();
  expect(await jobRow(finished.id)).toMatchObject({ status: 'succeeded', charged_micros: 40_000n });
  for (const { id } of [waiting, running])
    expect(await jobRow(id)).toMatchObject({ status: 'failed', reason: 'cancelled', charged_micros: 0n });
  expect(await booksOf(finished.accountId, client)).toMatchObject({
    balanceMicros: 960_000n,
    holdsMicros: 0n,
    ledgerOk: true,
  });

  // A control plane that died between the settlement and the write that releases the RenderJob.
  const settled = await submitted(client);
  await succeed(system, settled.renderJob);
  await untilTrue(
    async () => ((await settled.find())?.metadata.finalizers ?? []).length === 0,
    'it is let go',
  );
  await plane.close();
  await settled.setFinalizers([SETTLEMENT_FINALIZER]);
  await settled.remove();
  await system.startPlane();
  await settled.untilGone();
  expect(await jobRow(settled.id)).toMatchObject({ status: 'succeeded', charged_micros: 40_000n });
});

test.each([newId('job-'), 'copied-by-hand'])(
  '%s, of which no job is known, is not kept for ever',
  async (name) => {
    const plane = await system.startPlane();
    const { renderJob } = await submitted(connectTo(plane.port, system.adminToken));
    const ref = { name, namespace: system.kubernetes.namespace };
    await system.kube.create(RENDERJOB_RESOURCE, {
      metadata: { ...ref, finalizers: [SETTLEMENT_FINALIZER] },
      spec: renderJob.spec,
    });
    await system.kube.delete(RENDERJOB_RESOURCE, ref);
    await untilTrue(async () => !(await found(ref)), 'it is gone');
    await plane.close();
  },
);
