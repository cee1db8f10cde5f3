import { RENDERJOB_RESOURCE, type RenderJobStatus } from '@semblance/crds/gen/renderjobs';
import { admin, json, system } from '@semblance/testkit/control-plane/admin';
import {
  callerOf,
  photoSwap,
  setStatus,
  untilJob,
  untilRenderJob,
  untilTrue,
  upload,
} from '@semblance/testkit/control-plane/control-plane';
import { beforeAll, expect, test } from 'vitest';

let account: string;
let caller: { keySha256: Buffer };
let picture: string;

beforeAll(async () => {
  const { answer } = await json('account', 'create', '--name', 'Jobs', '--balance-usd', '5');
  account = answer.account_id;
  caller = callerOf(answer.api_key);
  picture = (await upload(system, caller)).fileKey;
});

async function submit(callbackUrl?: string) {
  const { control, ask } = system.client;
  const { id } = await ask(control.submitJob.bind(control), { ...photoSwap(caller, picture), callbackUrl });
  return { id, renderJob: await untilRenderJob(system, id) };
}

const ended = ({ status }: { status: string }) => status === 'failed' || status === 'succeeded';

const FAULT = 'Attempt 2 was interrupted, as 1 before it (backoffLimit): the device ran out of memory';
const FAILED: RenderJobStatus = {
  phase: 'Failed',
  attempt: 2,
  agent: 'gpu-bbbbb',
  interruptions: 2,
  failure: { code: 'processing_failed', message: 'The work could not be completed.' },
  attempts: [
    {
      number: 1,
      agent: 'gpu-aaaaa',
      startTime: '2026-01-01T00:00:00Z',
      endTime: '2026-01-01T00:00:09Z',
      reason: 'Interrupted',
      message: 'Attempt 1 on gpu-aaaaa was interrupted (1 of 1 allowed)',
    },
    {
      number: 2,
      agent: 'gpu-bbbbb',
      endTime: '2026-01-01T00:01:00Z',
      reason: 'BackoffLimitExceeded',
      message: FAULT,
    },
  ],
  conditions: [
    {
      type: 'Ready',
      status: 'False',
      reason: 'BackoffLimitExceeded',
      message: FAULT,
      lastTransitionTime: '2026-01-01T00:01:00Z',
    },
  ],
};

test('why a job failed is told as long as the job is kept, also when its RenderJob is gone', async () => {
  const { id, renderJob } = await submit('https://hook.invalid/x?token=secret');
  await setStatus(system, renderJob, FAILED);
  await untilJob(system, caller, id, ended);
  const { kube, kubernetes } = system;
  const ref = { name: id, namespace: kubernetes.namespace };
  // No operator is here to take its finalizer off.
  await kube.mergePatch(RENDERJOB_RESOURCE, ref, { metadata: { finalizers: [] } });
  await kube.delete(RENDERJOB_RESOURCE, ref);
  await untilTrue(async () => !(await kube.find(RENDERJOB_RESOURCE, ref)), 'the RenderJob is gone');

  const { answer: job } = await json('job', 'show', '--job', id);
  expect(job).toMatchObject({
    ...{ job_id: id, account_id: account, capability: 'face-swap-image', status: 'failed' },
    ...{ error_code: 'processing_failed', error_message: 'The work could not be completed.' },
    ...{ reason: 'render_failed', operator_reason: 'BackoffLimitExceeded', operator_message: FAULT },
    ...{ attempted: 2, agent: 'gpu-bbbbb', hold_usd: 0.06, charged_usd: 0, rate_usd: 0.04 },
    inputs: { image: picture, face: picture },
    callback_url: 'https://hook.invalid/x?…',
  });
  expect(job.attempts).toEqual([
    {
      ...{ number: 1, agent: 'gpu-aaaaa', reason: 'Interrupted' },
      ...{ started_at: '2026-01-01T00:00:00Z', ended_at: '2026-01-01T00:00:09Z' },
      message: FAILED.attempts?.[0]?.message,
    },
    {
      ...{ number: 2, agent: 'gpu-bbbbb', reason: 'BackoffLimitExceeded' },
      ...{ started_at: null, ended_at: '2026-01-01T00:01:00Z' },
      message: FAULT,
    },
  ]);
  expect(job.transfers.map(({ kind, usd }: { kind: string; usd: number }) => [kind, usd])).toEqual([
    ['hold', 0.06],
    ['release', 0.06],
  ]);
  expect(job.deliveries).toMatchObject([
    {
      delivery_id: id.replace('job-', 'dlv-'),
      event: 'job.failed',
      account_id: account,
      url: 'https://hook.invalid/x?…',
    },
  ]);

  const { stdout } = await admin(['job', 'show', '--job', id]);
  expect(stdout).toMatch(/^attempts\nnumber {2}agent {6}started_at/m);
  expect(stdout).toContain('out of memory');
  expect(stdout + JSON.stringify(job)).not.toContain('secret');
});

test('a job that waits or runs says so by its RenderJob', async () => {
  const { id, renderJob } = await submit();
  const message = '2nd of 2 waiting; 1 of 1 slot on 1 agent is busy.';
  await setStatus(system, renderJob, {
    phase: 'Pending',
    conditions: [
      {
        type: 'Ready',
        status: 'False',
        reason: 'SlotsBusy',
        message,
        lastTransitionTime: new Date().toISOString(),
      },
    ],
  });
  const show = async () => (await json('job', 'show', '--job', id)).answer;
  await expect.poll(async () => (await show()).operator_message).toBe(message);
  expect((await json('capacity', 'queue')).answer).toContainEqual(
    expect.objectContaining({ capability: 'face-swap-image', reason: 'SlotsBusy', jobs: 1, message }),
  );
  await setStatus(system, renderJob, {
    phase: 'Running',
    attempt: 1,
    agent: 'gpu-1',
    startTime: '2026-01-01T00:00:00Z',
  });
  await expect
    .poll(async () => (await show()).attempts)
    .toEqual([
      {
        ...{ number: 1, agent: 'gpu-1', started_at: '2026-01-01T00:00:00Z' },
        ...{ ended_at: null, reason: null, message: null },
      },
    ]);
  expect(await show()).toMatchObject({ charged_usd: null, ended_at: null, attempted: 1 });
  const { control, ask } = system.client;
  await ask(control.cancelJob.bind(control), { caller, jobId: id });
});

test('jobs are found by account, status, error, capability and time, page by page', async () => {
  const other = (await json('account', 'create', '--name', 'Other', '--balance-usd', '5')).answer;
  const theirs = callerOf(other.api_key);
  const { fileKey } = await upload(system, theirs);
  const { control, ask } = system.client;
  const ids: string[] = [];
  for (let i = 0; i < 5; i++)
    ids.unshift((await ask(control.submitJob.bind(control), photoSwap(theirs, fileKey))).id);
  for (const id of ids.slice(0, 2)) {
    const renderJob = await untilRenderJob(system, id);
    await setStatus(system, renderJob, {
      ...FAILED,
      failure: { code: 'face_not_detected', message: '=no face' },
    });
    await untilJob(system, theirs, id, ended);
  }
  const list = async (...flags: string[]) =>
    (await json('job', 'list', ...flags)).answer.map(({ job_id }: { job_id: string }) => job_id);
  const mine = ['--account', other.account_id];
  expect(await list(...mine)).toEqual(ids);
  expect(await list(...mine, '--limit', '2')).toEqual(ids.slice(0, 2));
  expect(await list(...mine, '--limit', '2', '--before', ids[1] as string)).toEqual(ids.slice(2, 4));
  expect(await list(...mine, '--status', 'failed')).toEqual(ids.slice(0, 2));
  expect(await list('--status', 'failed', '--limit', '2')).toEqual(ids.slice(0, 2));
  expect(await list('--error', 'face_not_detected')).toEqual(ids.slice(0, 2));
  expect(await list('--limit', '5')).toEqual(ids);
  expect(await list('--limit', '2', '--before', ids[2] as string)).toEqual(ids.slice(3));
  expect(await list(...mine, '--capability', 'avatar')).toEqual([]);
  expect(await list('--to', '2020-01-01')).toEqual([]);
  expect(await list('--from', new Date(Date.now() + 60_000).toISOString())).toEqual([]);
  expect((await list('--from', new Date(Date.now() - 60_000).toISOString())).slice(0, 5)).toEqual(ids);

  const { stdout } = await admin(['job', 'list', ...mine, '--csv']);
  const [head, first] = stdout.split('\n');
  expect(head).toBe(
    'job_id,account_id,capability,status,created_at,ended_at,charged_usd,attempts,agent,reason,error_code,error_message',
  );
  expect(first).toMatch(new RegExp(`^${ids[0]},.*,face_not_detected,'=no face$`));
  for (const id of ids.slice(2)) await ask(control.cancelJob.bind(control), { caller: theirs, jobId: id });
});

test.each([
  [['job', 'show', '--job', 'job-none'], 1, 'not_found'],
  [['job', 'show', '--job', "job-' or true; --"], 1, 'not_found'],
  [['job', 'show'], 2, 'usage'],
  [['job', 'list', '--status', 'done'], 1, 'invalid_input'],
  [['job', 'list', '--capability', 'mind-swap'], 1, 'invalid_input'],
  [['job', 'list', '--error', "x' --"], 1, 'invalid_input'],
  [['job', 'list', '--from', 'soon'], 1, 'invalid_input'],
  [['job', 'list', '--before', 'job-1'], 1, 'invalid_input'],
  [['job', 'list', '--account', 'acct-none'], 1, 'not_found'],
  [['job', 'list', '--limit', '1001'], 1, 'invalid_input'],
])('%j is refused', async (args, code, errorCode) => {
  expect(await json(...args)).toMatchObject({ code, answer: { error: { code: errorCode } } });
});
