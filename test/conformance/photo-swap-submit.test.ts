import { expectError } from '@semblance/testkit/stack/expect-error';
import { ADMIRAL, ASTRONAUT, faceless, MP4, wav } from '@semblance/testkit/stack/media';
import { type Account, type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import { beforeAll, describe, expect, test } from 'vitest';

let stack: Stack;
let account: Account;
/** Key of a picture without a face, so that the jobs of these tests end quickly. */
let image_key: string;
let face_key: string;

beforeAll(async () => {
  stack = await sharedStack();
  account = await stack.newAccount();
  image_key = await account.api.upload(await faceless());
  face_key = await account.api.upload(await faceless('jpeg'));
}, 240_000);

const submit = (body: unknown) => account.api.post('/face-swap-image', body);

/** Returns the number of RenderJobs of the account; the specification calls them "queued". */
async function queued(accountId: string): Promise<number> {
  const list = JSON.parse(await stack.kubectl(['get', 'renderjobs', '-o', 'json'])) as {
    items: { spec: { account?: string } }[];
  };
  return list.items.filter(({ spec }) => spec.account === accountId).length;
}

describe('Every job submit answers with the same three fields (`id`, `status`, `status_url`)', () => {
  test('a successful job submit returns HTTP 200, `status` is `queued` at submit, nothing else is in it', async () => {
    const answer = await submit({ image_key, face_key });
    expect(answer.status, answer.text).toBe(200);
    expect(answer.headers.get('content-type')).toMatch(/^application\/json\b/);
    expect(answer.body).toEqual({
      id: expect.stringMatching(/\S/),
      status: 'queued',
      status_url: expect.any(String),
    });
  });

  test('`status_url` is a path of the form `/api/v1/jobs/<job_id>`, relative to the host origin', async () => {
    const { id, status_url } = await account.api.swap({ image_key, face_key });
    expect(status_url).toBe(`/api/v1/jobs/${id}`);
  });

  test('Callers poll this value rather than building the path', async () => {
    const { id, status_url } = await account.api.swap({ image_key, face_key });
    const polled = await fetch(new URL(status_url, account.api.baseUrl), {
      headers: { authorization: `Bearer ${account.apiKey}` },
    });
    expect(polled.status).toBe(200);
    expect(((await polled.json()) as { id: string }).id).toBe(id);
  });

  test('two submits of the same body without an Idempotency-Key are two jobs', async () => {
    const [first, second] = await Promise.all([
      account.api.swap({ image_key, face_key }),
      account.api.swap({ image_key, face_key }),
    ]);
    expect(first.id).not.toBe(second.id);
  });

  test('one upload may be both inputs', async () => {
    expect((await submit({ image_key, face_key: image_key })).status).toBe(200);
  });
});

describe('Any field failing validation yields `invalid_input` (400)', () => {
  test.each<[string, (keys: { image_key: string; face_key: string }) => unknown]>([
    ['image_key missing', ({ face_key }) => ({ face_key })],
    ['face_key missing', ({ image_key }) => ({ image_key })],
    ['no field at all', () => ({})],
    ['image_key null', (keys) => ({ ...keys, image_key: null })],
    ['image_key a number', (keys) => ({ ...keys, image_key: 17 })],
    ['image_key an array', (keys) => ({ ...keys, image_key: [keys.image_key] })],
    ['image_key an object', (keys) => ({ ...keys, image_key: { key: keys.image_key } })],
    ['image_key empty', (keys) => ({ ...keys, image_key: '' })],
    ['face_key true', (keys) => ({ ...keys, face_key: true })],
    ['callback_url a number', (keys) => ({ ...keys, callback_url: 5 })],
    ['callback_url empty', (keys) => ({ ...keys, callback_url: '' })],
    ['callback_url no URL', (keys) => ({ ...keys, callback_url: 'example.com/hook' })],
    ['callback_url a path', (keys) => ({ ...keys, callback_url: '/hook' })],
    ['callback_url of another scheme', (keys) => ({ ...keys, callback_url: 'ftp://example.com/hook' })],
    ['callback_url a file', (keys) => ({ ...keys, callback_url: 'file:///etc/passwd' })],
    ['callback_url a script', (keys) => ({ ...keys, callback_url: 'javascript:alert(1)' })],
    ['callback_url an array', (keys) => ({ ...keys, callback_url: ['https://example.com/hook'] })],
    [
      'callback_url endless',
      (keys) => ({ ...keys, callback_url: `https://example.com/${'x'.repeat(20_000)}` }),
    ],
  ])('%s', async (_name, make) => {
    const before = await account.api.balance();
    expectError(await submit(make({ image_key, face_key })), 'invalid_input');
    // No hold is placed either; jobs that end meanwhile can only raise the balance.
    expect((await account.api.balance()).balance_usd).toBeGreaterThanOrEqual(before.balance_usd);
  });

  test('the message names the field', async () => {
    expect(expectError(await submit({ image_key }), 'invalid_input')).toContain('face_key');
    expect(expectError(await submit({ face_key, image_key: 7 }), 'invalid_input')).toContain('image_key');
    const answer = await submit({ image_key, face_key, callback_url: 'nowhere' });
    expect(expectError(answer, 'invalid_input')).toContain('callback_url');
  });

  test('Every job submit accepts an optional `callback_url` (string)', async () => {
    for (const callback_url of ['https://example.com/hook', 'https://example.com:8443/a/b?c=d']) {
      const answer = await submit({ image_key, face_key, callback_url });
      expect(answer.status, answer.text).toBe(200);
    }
  });
});

describe('A malformed key, one that does not carry the `api/` prefix, is rejected at submit and no job is queued', () => {
  test('whatever else it looks like', async () => {
    const other = await stack.newAccount();
    const face = await other.api.upload(ASTRONAUT);
    for (const key of [
      face.slice('api/'.length),
      `/${face}`,
      ` ${face}`,
      face.replace('api/', 'API/'),
      `s3://${face}`,
      'https://example.com/face.png',
      'file:///etc/passwd',
      `data:image/png;base64,${Buffer.from(ASTRONAUT.bytes.subarray(0, 60)).toString('base64')}`,
    ]) {
      for (const body of [
        { image_key: key, face_key: face },
        { image_key: face, face_key: key },
      ]) {
        expectError(await other.api.post('/face-swap-image', body), 'invalid_input');
      }
    }
    expect(await queued(other.accountId)).toBe(0);
    expect((await other.api.balance()).balance_usd).toBe(100);
  });
});

describe('A `file_key` must be passed back exactly as received', () => {
  test.each([
    ['with a letter more', (key: string) => `${key}x`],
    ['with a letter less', (key: string) => key.slice(0, -1)],
    ['in capitals', (key: string) => `api/${key.slice(4).toUpperCase()}`],
    ['with a space', (key: string) => `${key} `],
    ['with a slash', (key: string) => `${key}/`],
    ['with a detour', (key: string) => key.replace('api/', 'api/../api/')],
    ['with a double slash', (key: string) => key.replace('api/', 'api//')],
    ['with a NUL', (key: string) => `${key}\0`],
    ['of a thousand letters', () => `api/${'k'.repeat(1_000)}`],
    ['that is only the prefix', () => 'api/'],
    ['that nobody was given', () => 'api/00000000000000000000000000'],
  ])('a key %s is `invalid_input`', async (_name, change) => {
    expectError(await submit({ image_key: change(image_key), face_key }), 'invalid_input');
  });

  test('a key of another account is as good as unknown', async () => {
    const stranger = await stack.newAccount();
    const answer = await stranger.api.post('/face-swap-image', { image_key, face_key });
    const unknown = await stranger.api.post('/face-swap-image', {
      image_key: 'api/00000000000000000000000000',
      face_key,
    });
    expectError(answer, 'invalid_input');
    expectError(unknown, 'invalid_input');
    expect(await queued(stranger.accountId)).toBe(0);
  });

  test('a key of a file that is no picture is `invalid_input`', async () => {
    for (const file of [wav(), MP4]) {
      const key = await account.api.upload(file);
      expectError(await submit({ image_key: key, face_key }), 'invalid_input');
      expectError(await submit({ image_key, face_key: key }), 'invalid_input');
    }
  });

  test('a key may be used again and again', async () => {
    const face = await account.api.upload(ADMIRAL);
    for (let i = 0; i < 3; i++) expect((await submit({ image_key, face_key: face })).status).toBe(200);
  });
});
