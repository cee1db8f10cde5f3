import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runAdmin } from '@semblance/control-plane/admin/run';
import { apiOf } from '@semblance/testkit/stack/api';
import { expectError } from '@semblance/testkit/stack/expect-error';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/stack/media';
import { type Account, type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

/** Additions to the specification: receipts of deleted files. */
let stack: Stack;
let account: Account;
let folder: string;

beforeAll(async () => {
  stack = await sharedStack();
  account = await stack.newAccount({ balanceUsd: 10 });
  folder = await mkdtemp(join(tmpdir(), 'receipts-'));
}, 240_000);
afterAll(() => rm(folder, { recursive: true, force: true }));

interface Receipt {
  readonly statement: Record<string, unknown>;
  readonly jws: string;
}
interface Page {
  readonly receipts: Receipt[];
  readonly pending: number;
  readonly next_cursor: string | null;
}

async function list(query = '', of = account): Promise<Page> {
  const answer = await of.api.get(`/receipts${query}`);
  expect(answer.status, answer.text).toBe(200);
  return answer.body as Page;
}
const publicKeys = async () =>
  (await apiOf({ baseUrl: account.api.baseUrl }).get('/receipts/keys')).body as { keys: object[] };

/** Runs `admin receipt verify` where there is no service. */
async function verify(receipts: unknown, keys: unknown): Promise<{ code: number; answer: unknown }> {
  const [file, keyFile] = [join(folder, 'receipts.json'), join(folder, 'keys.json')];
  await writeFile(file, JSON.stringify(receipts));
  await writeFile(keyFile, JSON.stringify(keys));
  let text = '';
  const stream = { write: (more: string) => (text += more) };
  const args = ['receipt', 'verify', '--file', file, '--keys', keyFile, '--json'];
  const code = await runAdmin(args, { env: {}, stdout: stream, stderr: stream });
  return { code, answer: JSON.parse(text) };
}

describe('receipts of deleted files', () => {
  test('a job’s output and inputs: what, when, for whom, confirmed, and provable without the service', async () => {
    const [image_key, face_key] = await Promise.all([
      account.api.upload(ADMIRAL),
      account.api.upload(ASTRONAUT),
    ]);
    const { id } = await account.api.swap({ image_key, face_key });
    const job = await account.api.finished(id);
    const bytes = Buffer.from(await (await fetch(job.output_url ?? '')).arrayBuffer());
    const sha256Of = async (data: Uint8Array) =>
      Buffer.from(await crypto.subtle.digest('SHA-256', Buffer.from(data))).toString('hex');
    expect(await list(`?job_id=${id}`)).toEqual({ receipts: [], pending: 0, next_cursor: null });
    await account.api.request('DELETE', `/jobs/${id}/media?inputs=true`);

    const page = await list(`?job_id=${id}`);
    expect(page.pending).toBe(0);
    const statements = page.receipts.map(({ statement }) => statement);
    const common = {
      statement: 'deleted',
      account_id: account.accountId,
      requested_by: 'owner',
      removed_at: expect.stringMatching(/^\d{4}-.*Z$/),
      deleted_at: expect.stringMatching(/^\d{4}-.*Z$/),
      service: expect.stringMatching(/^[0-9a-f-]{36}$/),
    };
    expect(statements).toEqual(
      expect.arrayContaining([
        {
          ...{ ...common, kind: 'output', job_id: id, object_key: expect.stringMatching(/^out\//) },
          ...{ size_bytes: bytes.length, sha256: await sha256Of(bytes) },
        },
        ...(await Promise.all(
          [
            { key: image_key, file: ADMIRAL.bytes },
            { key: face_key, file: ASTRONAUT.bytes },
          ].map(async ({ key, file }) => ({
            ...{ ...common, kind: 'upload', job_id: null, object_key: key },
            ...{ size_bytes: file.length, sha256: await sha256Of(file) },
          })),
        )),
      ]),
    );
    // Asking again gives the same statements.
    expect(await list(`?job_id=${id}`)).toEqual(page);
    expect((await list(`?file_key=${face_key}`)).receipts).toEqual(
      page.receipts.filter(({ statement }) => statement.object_key === face_key),
    );

    const keys = await publicKeys();
    expect(await verify(page, keys)).toEqual({ code: 0, answer: statements });
    expect(await verify(page.receipts[0], keys)).toEqual({ code: 0, answer: [statements[0]] });

    const stranger = await stack.newAccount({ balanceUsd: 1 });
    expectError(await stranger.api.get(`/receipts?job_id=${id}`), 'not_found');
    expect((await list(`?file_key=${face_key}`, stranger)).receipts).toEqual([]);
    expect((await list('', stranger)).receipts).toEqual([]);
  });

  test('pages by cursor', async () => {
    const keys: string[] = [];
    for (let i = 0; i < 3; i++) {
      const key = await account.api.upload(ADMIRAL);
      await account.api.request('DELETE', `/uploads/${key}`);
      keys.unshift(key);
    }
    const first = await list('?limit=2');
    expect(first.receipts.map(({ statement }) => statement.object_key)).toEqual(keys.slice(0, 2));
    const next = await list(`?limit=1&cursor=${first.next_cursor}`);
    expect(next.receipts.map(({ statement }) => statement.object_key)).toEqual(keys.slice(2));
  });

  test('a receipt whose statement was changed proves nothing', async () => {
    const key = await account.api.upload(ADMIRAL);
    await account.api.request('DELETE', `/uploads/${key}`);
    const [receipt] = (await list(`?file_key=${key}`)).receipts as [Receipt];
    const changed = { ...receipt, statement: { ...receipt.statement, size_bytes: 1 } };
    expect(await verify(changed, await publicKeys())).toEqual({
      code: 1,
      answer: { error: { code: 'invalid_receipt', message: expect.any(String) } },
    });
  });

  test.each([
    '?limit=0',
    '?limit=201',
    '?job_id=',
    '?job_id=%00',
    '?file_key=x',
    '?job_id=job-1&file_key=api/up-1',
    '?cursor=',
    '?cursor=x',
    '?cursor=MTIzNDU2Nzg5MDEyMzQ1Njc4OTAxMjM0NTY3ODkw',
  ])('%s is invalid_input', async (query) => {
    expectError(await account.api.get(`/receipts${query}`), 'invalid_input');
  });

  test('of a job that never was: not_found', async () => {
    expectError(await account.api.get('/receipts?job_id=job-none'), 'not_found');
  });
});
