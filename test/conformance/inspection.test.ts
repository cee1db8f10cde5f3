import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Upload } from '@semblance/testkit/stack/api';
import { expectError } from '@semblance/testkit/stack/expect-error';
import { ADMIRAL, ASTRONAUT, PROFESSOR, wav } from '@semblance/testkit/stack/media';
import { type Contract, readContract } from '@semblance/testkit/stack/openapi';
import { type Account, type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import { root } from '@semblance/testkit/stack/stack-process';
import sharp from 'sharp';
import { beforeAll, describe, expect, test } from 'vitest';

interface Details {
  readonly faces?: { readonly found: number; readonly changed: number; readonly left: readonly unknown[] };
  readonly hints: readonly { readonly code: string; readonly input?: string }[];
}
interface Inspected {
  readonly inspection?: { readonly status: string; readonly reason?: string; readonly error?: object };
  readonly details?: Details;
}

const PHOTO = 'face-swap-image';
const CAT: Upload = {
  filename: 'cat.jpg',
  contentType: 'image/jpeg',
  bytes: readFileSync(join(root, 'media', 'cat.jpg')),
};

let stack: Stack;
let account: Account;
let contract: Contract;
let astronaut: string;
let admiral: string;

beforeAll(async () => {
  stack = await sharedStack();
  account = await stack.newAccount({ balanceUsd: 1 });
  contract = await readContract(account.api.baseUrl);
  [astronaut, admiral] = (await Promise.all([
    account.api.upload(ASTRONAUT),
    account.api.upload(ADMIRAL),
  ])) as [string, string];
}, 240_000);

/** Asks once; other tests may keep the agents busy. */
async function askOnce(body: object, api = account.api) {
  const answer = await api.post('/estimate', { inspect: true, ...body });
  expect(answer.status, answer.text).toBe(200);
  const operation = contract.operations.find(({ operationId }) => operationId === 'estimate');
  if (!operation) throw new Error('the document has no estimate');
  expect(contract.faultsOf(operation, answer)).toEqual([]);
  return answer.body as Inspected;
}

/** Asks until an agent has looked. */
async function ask(body: object): Promise<Inspected> {
  for (;;) {
    const answer = await askOnce(body);
    const { reason = '' } = answer.inspection ?? {};
    if (!['busy', 'timed_out'].includes(reason)) return answer;
  }
}

describe('POST /estimate with `inspect: true` looks at the pictures', () => {
  test('and tells what the job’s record then tells, for nothing', async () => {
    const before = await account.api.balance();
    const image_key = await account.api.upload(PROFESSOR);
    const swap = { image_key, face_key: admiral };
    const { inspection, details } = await ask({ capability: PHOTO, ...swap });
    expect(inspection).toEqual({ status: 'inspected' });
    // Behind the speaker, who is turned to the side, there is a smaller man; the admiral wears glasses.
    expect(details?.faces).toMatchObject({ found: 2, changed: 1, left: [{ reason: 'bystander', count: 1 }] });
    expect(details?.hints).toContainEqual(expect.objectContaining({ code: 'glasses', input: 'face_key' }));
    expect(await account.api.balance()).toEqual(before);
    expect((await account.api.get('/usage')).body).toEqual([]);
    const { id } = await account.api.swap(swap);
    const job = (await account.api.finished(id)) as { details?: Details };
    expect(job.details).toEqual(details);
  });

  test('of a small face', async () => {
    const small = await sharp(Buffer.from(ASTRONAUT.bytes)).resize(200, 200).png().toBuffer();
    const face_key = await account.api.upload({ ...ASTRONAUT, bytes: small });
    const { details } = await ask({ capability: PHOTO, image_key: admiral, face_key });
    expect(details?.hints).toContainEqual(
      expect.objectContaining({ code: 'face_small', input: 'face_key', message: expect.any(String) }),
    );
  });

  test('and says why a job would fail: a cat, and half a picture', async () => {
    const image_key = await account.api.upload(CAT);
    expect(await ask({ capability: PHOTO, image_key, face_key: astronaut })).toMatchObject({
      inspection: { status: 'refused', error: { code: 'face_not_detected', message: expect.any(String) } },
      details: { faces: { found: 1, changed: 0, left: [{ reason: 'not_a_person', count: 1 }] }, hints: [] },
    });
    const half = ADMIRAL.bytes.subarray(0, ADMIRAL.bytes.length / 2);
    const face_key = await account.api.upload({ ...ADMIRAL, bytes: half });
    const answer = await ask({ capability: PHOTO, image_key: astronaut, face_key });
    expect(answer.inspection).toMatchObject({ status: 'refused', error: { code: 'unsupported_format' } });
    expect(answer.details).toBeUndefined();
  });

  test('and without it the answer is the same as ever', async () => {
    const body = { capability: PHOTO, image_key: astronaut, face_key: admiral };
    const plain = await account.api.post('/estimate', body);
    expect(Object.keys(plain.body as object)).not.toContain('inspection');
    for (const inspect of [false, null])
      expect((await account.api.post('/estimate', { ...body, inspect })).text).toBe(plain.text);
    const { inspection, details, ...rest } = await ask(body);
    expect(JSON.stringify(rest)).toBe(plain.text);
    expect(inspection).toEqual({ status: 'inspected' });
    expect(details?.faces).toEqual({ found: 1, changed: 1, left: [] });
  });
});

describe('an inspection is refused as the submit would be', () => {
  test.each<[string, () => Promise<object>]>([
    ['`inspect` that is no boolean', async () => ({ inspect: 'yes' })],
    ['no key of a picture', async () => ({ face_key: undefined })],
    ['an unknown key', async () => ({ face_key: 'api/up-unknown' })],
    ['the key of sound', async () => ({ face_key: await account.api.upload(wav()) })],
    [
      'another account’s key',
      async () => ({ face_key: await (await stack.newAccount()).api.upload(ADMIRAL) }),
    ],
  ])('%s is `invalid_input`', async (_what, change) => {
    const body = { capability: PHOTO, image_key: astronaut, face_key: admiral, inspect: true };
    expectError(await account.api.post('/estimate', { ...body, ...(await change()) }), 'invalid_input');
  });
});

describe('many inspections of one account at a time', () => {
  test('are all answered, and a render beside them is not held up by them', async () => {
    const crowd = await stack.newAccount({ balanceUsd: 1 });
    const [image_key, face_key] = await Promise.all([crowd.api.upload(ASTRONAUT), crowd.api.upload(ADMIRAL)]);
    const body = { capability: PHOTO, image_key, face_key };
    const asked = Array.from({ length: 20 }, () => askOnce(body, crowd.api));
    const { id } = await account.api.swap({ image_key: astronaut, face_key: admiral });
    const answers = await Promise.all(asked);
    for (const { inspection } of answers) {
      if (inspection?.status !== 'inspected')
        expect(inspection).toMatchObject({
          status: 'not_inspected',
          reason: expect.stringMatching(/^(busy|timed_out)$/),
        });
    }
    expect((await account.api.finished(id)) as object).toMatchObject({ status: 'succeeded' });
    expect((await crowd.api.get('/usage')).body).toEqual([]);
  });
});
