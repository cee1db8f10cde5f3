import { readFile } from 'node:fs/promises';
import { expectError } from '@semblance/testkit/stack/expect-error';
import { ADMIRAL, ASTRONAUT, isoMedia } from '@semblance/testkit/stack/media';
import { resumableClient } from '@semblance/testkit/stack/resumable-client';
import { type Account, type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import { beforeAll, describe, expect, test } from 'vitest';

/** Uploads that go on after a break: an addition, by draft-ietf-httpbis-resumable-upload-11. */

let stack: Stack;
let account: Account;
let client: ReturnType<typeof resumableClient>;
let base: string;
const png = Buffer.from(ASTRONAUT.bytes);
const PNG = { 'content-type': 'image/png' };

beforeAll(async () => {
  stack = await sharedStack();
  account = await stack.newAccount();
  base = account.api.baseUrl;
  client = resumableClient(account.apiKey as string);
}, 240_000);

const at = (location: string | undefined) => new URL(location ?? '', base).href;
const begun = async (headers: Record<string, string> = PNG) => {
  const answer = await client.begin(base, { headers });
  expect(answer.status).toBe(201);
  return at(answer.headers.location);
};

describe('an upload', () => {
  test('in one request answers as POST /uploads does, and its key can be used', async () => {
    const answer = await client.begin(base, { body: png, complete: true, headers: PNG });
    expect(answer).toMatchObject({ status: 200, headers: { 'upload-complete': '?1' } });
    expect(Object.keys(answer.body)).toEqual(['file_key', 'url']);
    const stored = Buffer.from(await (await fetch(answer.body.url ?? '')).arrayBuffer());
    expect(stored.equals(png)).toBe(true);
    const job = await account.api.swap({
      image_key: answer.body.file_key as string,
      face_key: await account.api.upload(ADMIRAL),
    });
    expect((await account.api.finished(job.id)).status).toBe('succeeded');
  });

  test('is announced before its end to a client that speaks the draft, and to no other', async () => {
    const { informed } = await client.begin(base, { body: png, complete: true, headers: PNG });
    expect(informed[0]).toMatchObject({
      status: 104,
      headers: {
        location: expect.stringMatching(/^\/api\/v1\/resumable-uploads\/up-/),
        'upload-draft-interop-version': '8',
        'upload-limit': expect.stringMatching(/^max-size=524288000, max-age=\d+$/),
      },
    });
    expect(informed.at(-1)).toMatchObject({ status: 104, headers: { 'upload-offset': String(png.length) } });
    for (const version of ['7', '9', ''])
      expect(
        await client.begin(base, {
          body: png,
          complete: true,
          headers: { ...PNG, 'upload-draft-interop-version': version },
        }),
      ).toMatchObject({ status: 200, informed: [] });
  });

  test('in parts goes on at the offset, and its type may come from its name', async () => {
    const url = await begun({
      'content-disposition': `inline; filename="a b.png"; filename*=UTF-8''%C3%A4.png`,
    });
    const first = await client.goOn(url, 0, { body: png.subarray(0, 1_000), complete: false });
    expect(first).toMatchObject({
      status: 204,
      headers: { 'upload-offset': '1000', 'upload-complete': '?0' },
    });
    const second = await client.goOn(url, 1_000, { body: png.subarray(1_000), complete: false });
    expect(second.headers['upload-offset']).toBe(String(png.length));
    const done = await client.goOn(url, png.length);
    expect(done.status).toBe(200);
    expect(Buffer.from(await (await fetch(done.body.url ?? '')).arrayBuffer()).equals(png)).toBe(true);
  });

  test('tells its state by HEAD and GET', async () => {
    const url = await begun({ ...PNG, 'upload-length': '500' });
    const state = {
      'upload-offset': '0',
      'upload-complete': '?0',
      'upload-length': '500',
      'upload-limit': expect.stringMatching(/^max-size=\d+, max-age=\d+$/),
      'cache-control': 'no-store',
    };
    for (const method of ['HEAD', 'GET'])
      expect(await client.send(method, url)).toMatchObject({ status: 204, headers: state });
  });

  test('OPTIONS of the path states the limits', async () => {
    const { status, headers } = await client.send('OPTIONS', `${base}/resumable-uploads`);
    expect([status, headers['upload-limit']]).toEqual([204, 'max-size=524288000']);
  });

  test('is cancelled by DELETE, and is then like one that never was', async () => {
    const url = await begun();
    await client.goOn(url, 0, { body: png, complete: false });
    expect((await client.send('DELETE', url)).status).toBe(204);
    for (const method of ['HEAD', 'DELETE']) expect((await client.send(method, url)).status).toBe(404);
    expect((await client.goOn(url, png.length)).status).toBe(404);
  });
});

describe('refusals', () => {
  test('another offset is 409, with the right one', async () => {
    const url = await begun();
    await client.goOn(url, 0, { body: png.subarray(0, 2_000), complete: false });
    for (const offset of [0, 1_999, 2_001, 999_999_999]) {
      const answer = await client.goOn(url, offset, { body: png.subarray(2_000) });
      expect(answer).toMatchObject({
        status: 409,
        headers: { 'upload-offset': '2000', 'upload-complete': '?0' },
        body: { error: { code: 'invalid_input' } },
      });
    }
    expect(await client.offset(url)).toBe(2_000);
  });

  test.each<[string, Record<string, string>]>([
    ['no Upload-Complete', { 'upload-complete': '' }],
    ['an Upload-Complete that is none', { 'upload-complete': 'true' }],
    ['no Upload-Offset', { 'upload-offset': '' }],
    ['a negative offset', { 'upload-offset': '-1' }],
    ['another type of body', { 'content-type': 'application/octet-stream' }],
    ['two lengths', { 'upload-length': '7' }],
  ])('%s is invalid_input', async (_what, headers) => {
    const answer = await client.goOn(await begun(), 0, { body: png, headers });
    expect(answer).toMatchObject({ status: 400, body: { error: { code: 'invalid_input' } } });
  });

  test('a length that changes, or that the file does not have, is invalid_input', async () => {
    const url = await begun({ ...PNG, 'upload-length': '5000' });
    const other = await client.goOn(url, 0, {
      body: png.subarray(0, 10),
      complete: false,
      headers: { 'upload-length': '6000' },
    });
    expect(other).toMatchObject({ status: 400, body: { error: { code: 'invalid_input' } } });
    const over = await client.goOn(url, 0, { body: png.subarray(0, 6_000), complete: false });
    expect(over).toMatchObject({ status: 400, body: { error: { code: 'invalid_input' } } });
    const short = await begun({ ...PNG, 'upload-length': '5000' });
    await client.goOn(short, 0, { body: png.subarray(0, 4_000), complete: false });
    expect((await client.goOn(short, 4_000)).status).toBe(400);
  });

  test.each<[string, Record<string, string>, Buffer, string]>([
    ['a type that is not accepted', { 'content-type': 'application/pdf' }, png, 'unsupported_format'],
    ['bytes of another kind', { 'content-type': 'video/mp4' }, png, 'unsupported_format'],
    ['an empty file', PNG, Buffer.alloc(0), 'invalid_input'],
    [
      'a picture over its limit',
      PNG,
      Buffer.concat([png, Buffer.alloc(46 * 1024 * 1024)]),
      'input_too_large',
    ],
    [
      'a length over every limit',
      { 'content-type': 'video/mp4', 'upload-length': '600000000' },
      isoMedia('isom'),
      'input_too_large',
    ],
  ])('%s is refused as by POST /uploads, and is over', async (_what, headers, body, code) => {
    const answer = await client.begin(base, { body, complete: !headers['upload-length'], headers });
    expect(answer.body.error?.code).toBe(code);
    expect(answer.status).toBe(400);
  });

  test('another account finds no such upload', async () => {
    const url = await begun();
    await client.goOn(url, 0, { body: png.subarray(0, 100), complete: false });
    const stranger = resumableClient((await stack.newAccount()).apiKey as string);
    expect((await stranger.send('HEAD', url)).status).toBe(404);
    expect((await stranger.goOn(url, 100, { body: png.subarray(100) })).status).toBe(404);
    expect((await stranger.send('DELETE', url)).status).toBe(404);
    const nobody = resumableClient('sk_nobody');
    expect((await nobody.send('HEAD', url)).status).toBe(401);
    expect((await client.goOn(url, 100, { body: png.subarray(100) })).status).toBe(200);
  });

  test('an unfinished upload is no file', async () => {
    const url = await begun();
    await client.goOn(url, 0, { body: png, complete: false });
    const image_key = `api/${url.split('/').at(-1)}`;
    const face_key = await account.api.upload(ADMIRAL);
    expectError(await account.api.post('/face-swap-image', { image_key, face_key }), 'invalid_input');
    expectError(await account.api.request('DELETE', `/uploads/${image_key}`), 'not_found');
  });

  test('HEIC of a phone goes this way too', async () => {
    const body = await readFile('media/phone/portrait.heic');
    const answer = await client.begin(base, {
      body,
      complete: true,
      headers: { 'content-type': 'image/heic' },
    });
    expect(answer.status).toBe(200);
  });
});
