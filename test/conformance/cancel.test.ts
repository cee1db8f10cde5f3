import { apiOf } from '@semblance/testkit/stack/api';
import { eventually } from '@semblance/testkit/stack/eventually';
import { expectError } from '@semblance/testkit/stack/expect-error';
import { ADMIRAL, ASTRONAUT, faceless, longPortrait } from '@semblance/testkit/stack/media';
import { whileRunning } from '@semblance/testkit/stack/render-jobs';
import { type Account, type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import { beforeAll, describe, expect, test } from 'vitest';

let stack: Stack;
let account: Account;
let big: { image_key: string; face_key: string };
let small: { image_key: string; face_key: string };

beforeAll(async () => {
  stack = await sharedStack();
  account = await stack.newAccount();
  const [large, portrait, face] = await Promise.all([
    account.api.upload(await longPortrait()),
    account.api.upload(ASTRONAUT),
    account.api.upload(ADMIRAL),
  ]);
  big = { image_key: large, face_key: face };
  small = { image_key: portrait, face_key: face };
}, 240_000);

const cancel = (id: string, api = account.api) => api.request('POST', `/jobs/${id}/cancel`);

async function expectCancelled(id: string) {
  const job = await account.api.finished(id);
  expect(job).toEqual({
    id,
    status: 'failed',
    output_url: null,
    charged_usd: 0,
    error: { code: 'processing_failed', message: expect.stringMatching(/cancel/i) },
  });
  const entries = (await account.api.get('/usage')).body as { id: string }[];
  expect(entries.find((entry) => entry.id === id)).toMatchObject({
    status: 'failed',
    reason: 'cancelled',
    charged_usd: 0,
  });
}

describe('A failed or cancelled job is charged 0, and `charged_usd` settles at 0', () => {
  test('POST /jobs/{id}/cancel of a running job: its work is stopped, its hold returned, its slot free', async () => {
    let before = await account.api.balance();
    const id = await whileRunning(
      stack.kubectl,
      async () => {
        before = await account.api.balance();
        return (await account.api.swap(big)).id;
      },
      async (id) => {
        const answer = await cancel(id);
        expect(answer.status, answer.text).toBe(200);
        if ((answer.body as { status: string }).status === 'succeeded') return undefined;
        expect(answer.body).toMatchObject({ id, output_url: null });
        return id;
      },
    );
    await expectCancelled(id);
    expect(await account.api.balance()).toEqual(before);
    await eventually('its RenderJob to be gone', async () =>
      (await stack.kubectl.renderJob(id)) === undefined ? true : undefined,
    );
    expect(await stack.admin('account', 'show', { account: account.accountId })).toMatchObject({
      holds: 0,
      holds_open: 0,
      ledger_ok: true,
    });
    const next = await account.api.swap(small);
    expect((await account.api.finished(next.id)).status).toBe('succeeded');
  }, 300_000);

  test('right after the submit, whatever has become of it by then', async () => {
    const { id } = await account.api.swap(big);
    expect((await cancel(id)).status).toBe(200);
    await expectCancelled(id);
  });
});

describe('POST /jobs/{id}/cancel', () => {
  test('is idempotent: said again, and after the end, it answers the job as it stands', async () => {
    const { id } = await account.api.swap(big);
    const answers = await Promise.all(Array.from({ length: 10 }, () => cancel(id)));
    expect(answers.map(({ status }) => status)).toEqual(Array(10).fill(200));
    await expectCancelled(id);
    const read = await account.api.get(`/jobs/${id}`);
    for (const body of [undefined, '{}', '{"why": "because"}']) {
      const answer = await account.api.request('POST', `/jobs/${id}/cancel`, {
        headers: body === undefined ? {} : { 'content-type': 'application/json' },
        ...(body === undefined ? {} : { body }),
      });
      expect([answer.status, answer.text]).toEqual([200, read.text]);
    }
  });

  test('`succeeded` and `failed` are terminal: cancelling afterwards changes nothing', async () => {
    const key = await account.api.upload(await faceless());
    for (const body of [small, { image_key: key, face_key: key }]) {
      const { id } = await account.api.swap(body);
      const before = await account.api.finished(id);
      const balance = await account.api.balance();
      const answer = await cancel(id);
      expect(answer.status).toBe(200);
      expect({ ...(answer.body as object), output_url: '' }).toEqual({ ...before, output_url: '' });
      expect({ ...(await account.api.job(id)), output_url: '' }).toEqual({ ...before, output_url: '' });
      expect(await account.api.balance()).toEqual(balance);
    }
  });

  test('A retry with the same Idempotency-Key returns the original job, cancelled or not', async () => {
    const key = { 'idempotency-key': 'cancelled' };
    const { id } = await account.api.swap(big, key);
    await cancel(id);
    expect((await account.api.swap(big, key)).id).toBe(id);
    await expectCancelled(id);
  });

  test('Unknown job, or a job belonging to another account: `not_found` (404), and it goes on', async () => {
    const stranger = await stack.newAccount();
    const { id } = await account.api.swap(small);
    expectError(await cancel(id, stranger.api), 'not_found');
    expectError(await cancel('job-00000000000000000000000000'), 'not_found');
    expectError(await cancel('x'), 'not_found');
    expect((await account.api.finished(id)).status).toBe('succeeded');
  });

  test('a missing or unknown key yields `unauthorized`, and the job goes on', async () => {
    const { id } = await account.api.swap(small);
    expectError(await cancel(id, apiOf({ baseUrl: account.api.baseUrl })), 'unauthorized');
    expectError(await cancel(id, apiOf({ baseUrl: account.api.baseUrl, apiKey: 'nobody' })), 'unauthorized');
    expect((await account.api.finished(id)).status).toBe('succeeded');
  });

  test.each(['[]', '"x"', 'null', '{'])(
    'a body that is no JSON object is `invalid_input`: %s',
    async (body) => {
      const headers = { 'content-type': 'application/json' };
      expectError(
        await account.api.request('POST', '/jobs/job-1/cancel', { headers, body }),
        'invalid_input',
      );
    },
  );
});
