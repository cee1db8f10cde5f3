import { afterAll, beforeAll, expect, test } from 'vitest';
import { RENDERJOB_RESOURCE } from '#crds/gen/renderjobs.ts';
import {
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
} from './testing.ts';

let system: TestSystem;

beforeAll(async () => {
  system = await startTestSystem();
});
afterAll(() => system.close());

const show = (accountId: string) => {
  const { admin, asAdmin } = system.client;
  return asAdmin(admin.showAccount.bind(admin), { accountId });
};

async function submitted(caller: { keySha256: Buffer }) {
  const { control, ask } = system.client;
  const { fileKey } = await upload(system, caller);
  return ask(control.submitJob.bind(control), photoSwap(caller, fileKey));
}

test('a job goes from submit to a charge of what was quoted, and the rest of the hold comes back', async () => {
  const { accountId, caller } = await makeAccount(system, 1);
  const answer = await submitted(caller);
  expect(answer).toMatchObject({ status: 'queued', statusUrl: `/api/v1/jobs/${answer.id}`, replayed: false });
  expect((await show(accountId)).account).toMatchObject({
    balanceMicros: 940_000n,
    holdsMicros: 60_000n,
    holdsOpen: 1,
  });

  const renderJob = await untilRenderJob(system, answer.id);
  expect(renderJob.metadata.labels).toEqual({ 'semblance.dev/account': accountId });
  expect(renderJob.spec).toMatchObject({
    capability: 'face-swap-image',
    account: accountId,
    ttlSecondsAfterFinished: 86_400,
  });
  expect((await untilJob(system, caller, answer.id, () => true)).status).toBe('queued');

  await setStatus(system, renderJob, { phase: 'Assigned', attempt: 1 });
  const processing = await untilJob(system, caller, answer.id, (job) => job.status === 'processing');
  expect(processing).toMatchObject({ outputUrl: undefined, chargedMicros: undefined, error: undefined });
  await succeed(system, renderJob);
  const done = await untilJob(system, caller, answer.id, (job) => job.status === 'succeeded');
  expect(done.chargedMicros).toBe(40_000n);
  expect(done.outputUrl).toContain(`api/out-${answer.id}`);
  expect((await untilJob(system, caller, answer.id, () => true)).outputUrl).toBe(done.outputUrl);
  expect((await show(accountId)).account).toMatchObject({
    balanceMicros: 960_000n,
    holdsMicros: 0n,
    holdsOpen: 0,
    ledgerOk: true,
  });
  await untilTrue(
    async () => (await system.database.sql`select 1 from outbox where job_id = ${answer.id}`).length === 0,
    'all debts are paid',
  );
});

test('a failed job costs nothing and says why', async () => {
  const { accountId, caller } = await makeAccount(system, 1);
  const { id } = await submitted(caller);
  const renderJob = await untilRenderJob(system, id);
  await setStatus(system, renderJob, {
    phase: 'Failed',
    attempt: 1,
    failure: { code: 'face_not_detected', message: 'No face was found in face_key.' },
  });
  const job = await untilJob(system, caller, id, ({ status }) => status === 'failed');
  expect(job).toMatchObject({
    chargedMicros: 0n,
    outputUrl: undefined,
    error: { code: 'face_not_detected', message: 'No face was found in face_key.' },
  });
  expect((await show(accountId)).account).toMatchObject({
    balanceMicros: 1_000_000n,
    holdsMicros: 0n,
    ledgerOk: true,
  });
});

test('a RenderJob that a person deletes ends its job as cancelled, free of charge', async () => {
  const { accountId, caller } = await makeAccount(system, 1);
  const { id } = await submitted(caller);
  const renderJob = await untilRenderJob(system, id);
  await untilTrue(
    async () =>
      (await system.database.sql`select 1 from jobs where id = ${id} and renderjob_uid is not null`)
        .length === 1,
    'the uid is recorded',
  );
  await system.kube.delete(RENDERJOB_RESOURCE, { name: id, namespace: renderJob.metadata.namespace });
  const job = await untilJob(system, caller, id, ({ status }) => status === 'failed');
  expect(job).toMatchObject({
    chargedMicros: 0n,
    error: { code: 'processing_failed', message: 'The job was cancelled.' },
  });
  const [row] = await system.database.sql`select reason from jobs where id = ${id}`;
  expect(row?.reason).toBe('cancelled');
  expect((await show(accountId)).account).toMatchObject({ balanceMicros: 1_000_000n, ledgerOk: true });
});

test('a success whose output is not in the store is a failure', async () => {
  const { caller } = await makeAccount(system, 1);
  const { id } = await submitted(caller);
  await setStatus(system, await untilRenderJob(system, id), {
    phase: 'Succeeded',
    attempt: 1,
    output: {
      key: 'api/nothing-here',
      contentType: 'image/png',
      sizeBytes: 7,
      unit: 'image',
      milliUnits: 1000,
    },
  });
  const job = await untilJob(system, caller, id, ({ status }) => status === 'failed');
  expect(job).toMatchObject({ chargedMicros: 0n, error: { code: 'processing_failed' } });
});
