import { expectError } from '@semblance/testkit/stack/expect-error';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/stack/media';
import { type Account, type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import { beforeAll, describe, expect, test } from 'vitest';

let stack: Stack;
let account: Account;
let image_key: string;
let face: string;
let again: string;

beforeAll(async () => {
  stack = await sharedStack();
  account = await stack.newAccount();
  [image_key, face, again] = (await Promise.all(
    [ASTRONAUT, ADMIRAL, ADMIRAL].map((file) => account.api.upload(file)),
  )) as [string, string, string];
}, 240_000);

const submit = (body: object, path = '/face-swap-image') => account.api.post(path, { image_key, ...body });

describe('several pictures of a face', () => {
  test('are one job at the price of one picture, which keeps all of them until it has ended', async () => {
    const answer = await submit({ face_keys: [face, again] });
    expect(answer.status, answer.text).toBe(200);
    const { id } = answer.body as { id: string };
    const job = await account.api.finished(id);
    expect(job.status).toBe('succeeded');
    expect(job.details?.hints[0]).toMatchObject({ code: 'picture_chosen', input: 'face_key' });
    const plain = await account.api.finished((await account.api.swap({ image_key, face_key: face })).id);
    expect(job.charged_usd).toBe(plain.charged_usd);
    expect((await stack.kubectl.renderJob(id))?.spec.inputs).toEqual(
      expect.arrayContaining([
        { name: 'face', key: face },
        { name: 'face_2', key: again },
      ]),
    );
    const deleted = await account.api.request('DELETE', `/jobs/${id}/media?inputs=true`);
    const { deleted_inputs } = deleted.body as { deleted_inputs: string[] };
    expect([...deleted_inputs].sort()).toEqual([image_key, face, again].sort());
    image_key = await account.api.upload(ASTRONAUT);
    face = await account.api.upload(ADMIRAL);
  });

  test('of which one shows another person fail the job, which costs nothing', async () => {
    const { id } = (await submit({ face_keys: [face, image_key] })).body as { id: string };
    expect(await account.api.finished(id)).toMatchObject({
      ...{ status: 'failed', charged_usd: 0 },
      error: { message: 'Picture 2 of face_keys shows another person than the first.' },
    });
  });

  test('are refused at submit when one is not the caller’s, and beside face_key', async () => {
    const foreign = await (await stack.newAccount()).api.upload(ADMIRAL);
    for (const path of ['/face-swap-image', '/estimate']) {
      const more = path === '/estimate' ? { capability: 'face-swap-image' } : {};
      const ask = (body: object) => submit({ ...more, ...body }, path);
      expect(expectError(await ask({ face_keys: [face, foreign] }), 'invalid_input')).toContain('face_keys');
      expect(expectError(await ask({ face_keys: [face], face_key: face }), 'invalid_input')).toContain(
        'exclude each other',
      );
      expect(expectError(await ask({}), 'invalid_input')).toContain('face_key is required');
    }
  });
});
