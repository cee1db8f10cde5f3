import { Metadata } from '@grpc/grpc-js';
import { RENDERJOB_RESOURCE } from '@semblance/crds/gen/renderjobs';
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
} from '@semblance/testkit/control-plane/control-plane';
import { afterAll, beforeAll, expect, test } from 'vitest';

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
  expect(done.outputUrl).toContain(`out/${answer.id}/1.png`);
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
      key: 'out/nothing-here/1.png',
      contentType: 'image/png',
      sizeBytes: 7,
      unit: 'image',
      milliUnits: 1000,
    },
  });
  const job = await untilJob(system, caller, id, ({ status }) => status === 'failed');
  expect(job).toMatchObject({ chargedMicros: 0n, error: { code: 'processing_failed' } });
});

test('what is left of the rate limit rides on every answer, refused or not, and beyond it nothing is done', async () => {
  const { control, ask } = system.client;
  const account = await makeAccount(system, 1, 1_000_000);
  const { fileKey } = await upload(system, account.caller);
  const { admin, asAdmin } = system.client;
  await system.database.sql`delete from rate_windows where key_id = ${account.keyId}`;
  await asAdmin(admin.limitKey.bind(admin), { keyId: account.keyId, perMinute: 3 });
  const { caller } = account;
  const said: string[] = [];
  const onTrailers = (trailers: Metadata) =>
    said.push(String(trailers.get('semblance-ratelimit')[0]).replace(/reset=\d+/, 'reset'));
  const codes: unknown[] = [];
  const calls = [
    () => ask(control.getBalance.bind(control), { caller }, { onTrailers }),
    () => ask(control.getJob.bind(control), { caller, jobId: 'job-none' }, { onTrailers }),
    () => ask(control.submitJob.bind(control), photoSwap(caller, 'nonsense'), { onTrailers }),
    () => ask(control.submitJob.bind(control), photoSwap(caller, fileKey), { onTrailers }),
  ];
  for (const call of calls)
    codes.push(
      await call().then(
        () => 'ok',
        ({ code }) => code,
      ),
    );
  expect(codes).toEqual(['ok', 'not_found', 'invalid_input', 'rate_limited']);
  expect(said).toEqual([2, 1, 0, 0].map((remaining) => `limit=3,remaining=${remaining},reset`));
  expect((await show(account.accountId)).account?.holdsMicros).toBe(0n);
});

test('a wrong admin token is refused, and so is none', async () => {
  const { admin, ask } = system.client;
  for (const authorization of ['Bearer wrong', system.adminToken, '']) {
    const metadata = new Metadata();
    if (authorization) metadata.set('authorization', authorization);
    const call = ask(admin.createAccount.bind(admin), { name: 'x', balanceMicros: 0n }, { metadata });
    await expect(call).rejects.toMatchObject({ code: 'unauthorized' });
  }
});

test('one that is asked to end while it begins is not ready from then on, and ends', async () => {
  const plane = await system.startPlane();
  plane.ready.ending?.();
  const closed = plane.close();
  expect(() => plane.ready.ending?.()).toThrow('the control plane is ending');
  await closed;
});
