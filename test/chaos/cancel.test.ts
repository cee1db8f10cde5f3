import type { Answer, JobRecord } from '@semblance/testkit/stack/api';
import { eventually } from '@semblance/testkit/stack/eventually';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createRig, expectOutage, type Rig } from './rig.ts';

/**
 * A running job is cancelled while a service is killed. Every answer to the cancel stays true, and the job ends
 * once.
 */
let rig: Rig;
beforeAll(async () => {
  rig = await createRig();
}, 300_000);
afterAll(() => rig?.close(), 200_000);

/** Calls cancel once. Returns undefined when no answer came; throws on an answer that an outage does not explain. */
async function tryCancel(id: string): Promise<JobRecord | undefined> {
  let answer: Answer;
  try {
    answer = await rig.api.request('POST', `/jobs/${id}/cancel`);
  } catch {
    return undefined;
  }
  if (answer.status === 200) return answer.body as JobRecord;
  expectOutage(answer);
  return undefined;
}

const CANCELLED = {
  status: 'failed',
  output_url: null,
  charged_usd: 0,
  error: { code: 'processing_failed', message: 'The job was cancelled.' },
};

test.each(['control-plane', 'operator', 'gpu-agent', 'kube-apiserver', 'postgres', 'gateway'])(
  'cancelled, and %s killed in the same moment',
  async (service) => {
    const id = await rig.submitTo(['Running'], 'long');
    const first = tryCancel(id);
    const { back } = rig.kill(service);
    const answered = await first;
    // Like a careful client, the test repeats the call until it is answered.
    await eventually('the cancellation to be answered', () => tryCancel(id), { withinMs: 100_000 });
    const job = await eventually(
      'the job to end',
      async () => {
        const record = await rig.api.job(id);
        return record.charged_usd === null ? undefined : record;
      },
      { withinMs: 100_000 },
    );
    // Only when an outage hid the call can the job have succeeded before it.
    if (answered || job.status === 'failed') expect(job).toMatchObject(CANCELLED);
    else expect(job).toMatchObject({ status: 'succeeded', charged_usd: 0.04 });
    await back;
    expect(await tryCancel(id)).toMatchObject({ ...job, output_url: expect.toSatisfy(() => true) });
  },
  400_000,
);

test('afterwards nothing is held or owed, and a job finds its slot free', async () => {
  await rig.expectDone(await rig.submit());
  const account = await eventually('the holds to be released', async () => {
    const { accountId } = rig;
    const shown = await rig.stack.admin('account', 'show', { account: accountId });
    return shown.holds === 0 ? shown : undefined;
  });
  expect(account).toMatchObject({ holds: 0, holds_open: 0, ledger_ok: true });
}, 240_000);
