import type { Api, JobRecord } from '@semblance/testkit/stack/api';
import { expectError } from '@semblance/testkit/stack/expect-error';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/stack/media';
import { type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import { beforeAll, describe, expect, test } from 'vitest';

let stack: Stack;
let api: Api;
let accountId: string;

beforeAll(async () => {
  stack = await sharedStack();
  const account = await stack.newAccount();
  api = account.api;
  accountId = account.accountId;
}, 240_000);

const remove = (path: string, of = api) => of.request('DELETE', path);
const uploads = () => Promise.all([api.upload(ASTRONAUT), api.upload(ADMIRAL)]);

async function swapped(image_key: string, face_key: string) {
  const { id } = await api.swap({ image_key, face_key });
  const job = await api.finished(id);
  if (!job.output_url) throw new Error(`the job failed: ${JSON.stringify(job.error)}`);
  return { ...job, output_url: job.output_url };
}

/** Returns the record of a job after its output was deleted. */
function withoutOutput({ expires_at: _, preview_url: __, ...job }: JobRecord): JobRecord {
  return { ...job, output_url: null };
}

/** Submits a job with these keys, which shows whether they exist. */
const submit = (image_key: string, face_key = image_key) =>
  api.post('/face-swap-image', { image_key, face_key });

describe('DELETE /jobs/{job_id}/media', () => {
  test('deletes the output: the link is dead, `output_url` null, status and charge stay; once', async () => {
    const keys = await uploads();
    const job = await swapped(...keys);
    expect((await fetch(job.output_url)).status).toBe(200);
    const answer = await remove(`/jobs/${job.id}/media`);
    expect(answer.status).toBe(200);
    expect(answer.body).toEqual({ id: job.id, output_deleted: true, deleted_inputs: [], kept_inputs: [] });
    expect((await fetch(job.output_url)).status).toBe(404);
    expect(await api.job(job.id)).toEqual(withoutOutput(job));
    expect((await remove(`/jobs/${job.id}/media?inputs=false`)).body).toMatchObject({
      output_deleted: false,
    });
    // The inputs must still be usable.
    expect((await submit(...keys)).status).toBe(200);
  });

  test('with `inputs=true` the uploads go too, and their keys read like unknown ones', async () => {
    const keys = await uploads();
    const job = await swapped(...keys);
    const answer = await remove(`/jobs/${job.id}/media?inputs=true`);
    const body = answer.body as { deleted_inputs: string[]; kept_inputs: string[] };
    expect(body.deleted_inputs.sort()).toEqual([...keys].sort());
    expect(body.kept_inputs).toEqual([]);
    const unknown = await submit('api/up-00000000000000000000000000');
    const gone = await submit(keys[0]);
    expectError(gone, 'invalid_input');
    expect(gone.text).toBe(unknown.text);
  });

  test('a submit and a deletion of its inputs at the same moment: one of them has its way, and nothing is lost to a job', async () => {
    const keys = await uploads();
    const done = await swapped(...keys);
    // The submit and the deletion happen at the same moment. Whichever comes first, the job must not lose its
    // inputs.
    const [another, answer] = await Promise.all([
      submit(...keys),
      remove(`/jobs/${done.id}/media?inputs=true`),
    ]);
    expect(answer.status).toBe(200);
    const { kept_inputs } = answer.body as { kept_inputs: string[] };
    if (another.status === 200) {
      expect((await api.finished((another.body as { id: string }).id)).status).toBe('succeeded');
      expect(kept_inputs.length + (answer.body as { deleted_inputs: string[] }).deleted_inputs.length).toBe(
        2,
      );
    } else expectError(another, 'invalid_input');
  });

  test('another account’s job, and one that never was: `not_found`', async () => {
    const keys = await uploads();
    const job = await swapped(...keys);
    const stranger = (await stack.newAccount()).api;
    expectError(await remove(`/jobs/${job.id}/media`, stranger), 'not_found');
    expectError(await remove('/jobs/job-none/media'), 'not_found');
    expectError(await remove('/jobs/%00/media'), 'not_found');
    expect((await fetch(job.output_url)).status).toBe(200);
  });

  test('other values of `inputs` are `invalid_input`; without a key it is `unauthorized`', async () => {
    for (const query of ['inputs=1', 'inputs=', 'inputs=true&inputs=false'])
      expectError(await remove(`/jobs/job-none/media?${query}`), 'invalid_input');
    const answer = await api.request('DELETE', '/jobs/job-none/media?inputs=1', {
      headers: { authorization: 'Bearer nobody' },
    });
    expectError(answer, 'unauthorized');
  });
});

describe('DELETE /uploads/{file_key}', () => {
  test.each([
    ['as it is', (key: string) => key],
    ['with its slash escaped', (key: string) => encodeURIComponent(key)],
  ])('deletes the upload, the key written %s; again it is `not_found`', async (_name, written) => {
    const response = await api.multipart([{ name: 'file', filename: 'a.png', body: ASTRONAUT.bytes }]);
    const { file_key, url } = response.body as { file_key: string; url: string };
    expect((await fetch(url)).status).toBe(200);
    const answer = await remove(`/uploads/${written(file_key)}`);
    expect([answer.status, answer.body]).toEqual([200, { file_key, deleted: true }]);
    expect((await fetch(url)).status).toBe(404);
    expectError(await remove(`/uploads/${written(file_key)}`), 'not_found');
    expectError(await submit(file_key), 'invalid_input');
  });

  test('another account’s key reads exactly like an unknown one', async () => {
    const key = await api.upload(ADMIRAL);
    const stranger = (await stack.newAccount()).api;
    const theirs = await remove(`/uploads/${key}`, stranger);
    const none = await remove('/uploads/api/up-00000000000000000000000000', stranger);
    expectError(theirs, 'not_found');
    expect(theirs.text).toBe(none.text);
    for (const path of ['api/', 'other/key', '..%2f..%2fetc', '%00', '%ff', `api/${'x'.repeat(600)}`])
      expectError(await remove(`/uploads/${path}`), 'not_found');
    await remove(`/uploads/${key}`);
  });

  test('every deletion is recorded with who asked for it', async () => {
    const key = await api.upload(ADMIRAL);
    await remove(`/uploads/${key}`);
    const list = (await stack.admin('media', 'list', { account: accountId })) as unknown as object[];
    expect(list[0]).toEqual({
      object_key: key,
      kind: 'upload',
      account_id: accountId,
      job_id: null,
      size_bytes: ADMIRAL.bytes.length,
      removed_by: 'owner',
      actor: expect.stringMatching(/^key-/),
      removed_at: expect.stringMatching(/^\d{4}-.*Z$/),
      deleted_at: expect.stringMatching(/^\d{4}-.*Z$/),
    });
  });
});

test('the service owner deletes by admin, and the audit says so', async () => {
  const job = await swapped(...(await uploads()));
  await stack.admin('media', 'delete', { job: job.id, actor: 'Ada Löv' });
  expect(await api.job(job.id)).toEqual(withoutOutput(job));
  const [entry] = (await stack.admin('audit', 'list', { account: accountId })) as unknown as object[];
  expect(entry).toMatchObject({
    actor: 'bootstrap',
    stated: 'Ada Löv',
    action: 'DeleteMedia',
    subject: job.id,
    after: { output_deleted: true, deleted_inputs: [], kept_inputs: [] },
  });
});

test('retention is a setting: a time, or never', async () => {
  const settings = await stack.admin('settings', 'list');
  expect(settings).toMatchObject({
    upload_retention_seconds: 2_592_000,
    output_retention_seconds: 2_592_000,
  });
  const set = (value: string) => stack.admin('settings', 'set', { name: 'output_retention', value });
  expect(await set('never')).toEqual({ name: 'output_retention_seconds', value: null });
  expect(await set('30d')).toEqual({ name: 'output_retention_seconds', value: 2_592_000 });
  await expect(set('1m')).rejects.toMatchObject({ code: 'invalid_input' });
  await expect(set('soon')).rejects.toMatchObject({ code: 'usage' });
});
