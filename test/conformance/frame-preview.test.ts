import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { apiOf } from '@semblance/testkit/stack/api';
import { expectError } from '@semblance/testkit/stack/expect-error';
import { ADMIRAL, ASTRONAUT, faceless } from '@semblance/testkit/stack/media';
import { type Account, type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import { root } from '@semblance/testkit/stack/stack-process';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

/**
 * Additions to the specification: one frame before paying.
 *
 * @module-tag ffmpeg
 */
const run = promisify(execFile);
let stack: Stack;
let account: Account;
let folder: string;
let swap: Record<string, string>;
let video_key: string;
let nobody: string;

beforeAll(async () => {
  stack = await sharedStack();
  account = await stack.newAccount({ balanceUsd: 1 });
  folder = await mkdtemp(join(tmpdir(), 'frame-preview-'));
  const clip = join(folder, 'clip.mp4');
  // The astronaut for a second, and then the admiral.
  const [first, second] = ['astronaut.png', 'grace_hopper.jpg'].map((name) => join(root, 'media', name));
  await run('ffmpeg', [
    ...['-v', 'error', '-nostdin', '-loop', '1', '-t', '1', '-i', first as string],
    ...['-loop', '1', '-t', '1', '-i', second as string],
    '-filter_complex',
    '[0]scale=720:720,fps=10,format=yuv420p[a];[1]scale=-2:720,pad=720:720:-1:-1,fps=10,format=yuv420p[b];[a][b]concat',
    clip,
  ]);
  const [image_key, face_key] = await Promise.all([
    account.api.upload(ASTRONAUT),
    account.api.upload(ADMIRAL),
  ]);
  swap = { capability: 'face-swap-image', image_key, face_key };
  nobody = await account.api.upload(await faceless('jpeg', 320, 240));
  video_key = await account.api.upload({
    filename: 'clip.mp4',
    contentType: 'video/mp4',
    bytes: await readFile(clip),
  });
}, 240_000);
afterAll(() => rm(folder, { recursive: true, force: true }));

/** Asks until an agent has room: other tests may keep the agents busy. */
async function preview(body: unknown, { api, apiKey }: Account = account) {
  for (;;) {
    const response = await fetch(`${api.baseUrl}/preview`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${apiKey}`, 'Content-Type': 'application/json' },
      body: JSON.stringify(body),
    });
    const bytes = Buffer.from(await response.arrayBuffer());
    if (response.status !== 429) return { response, bytes };
    const text = bytes.toString();
    expectError(
      { ...{ status: 429, headers: response.headers, text }, body: JSON.parse(text) },
      'at_capacity',
    );
    await delay(1_000 * Number(response.headers.get('retry-after')));
  }
}

async function shown(body: unknown): Promise<Buffer> {
  const { response, bytes } = await preview(body);
  expect(response.status, bytes.toString().slice(0, 300)).toBe(200);
  expect(response.headers.get('content-type')).toBe('image/jpeg');
  expect(response.headers.get('cache-control')).toBe('no-store');
  return bytes;
}

/** Returns the mean difference of two pictures in brightness, where both are made as large as the first. */
async function apart(a: Buffer, b: Buffer | Uint8Array): Promise<number> {
  const { width, height } = await sharp(a).metadata();
  const levels = (picture: Buffer | Uint8Array) =>
    sharp(Buffer.from(picture)).resize(width, height, { fit: 'fill' }).greyscale().raw().toBuffer();
  const [one, other] = await Promise.all([levels(a), levels(b)]);
  return one.reduce((sum, level, i) => sum + Math.abs(level - (other[i] ?? 0)), 0) / one.length;
}

describe('one frame before paying', () => {
  test('of a picture is small, marked, shows what the job makes, and costs and keeps nothing', async () => {
    const before = await account.api.get('/balance');
    const small = await shown(swap);
    const { width = 0, height = 0, format } = await sharp(small).metadata();
    expect([format, Math.max(width, height)]).toEqual(['jpeg', 512]);
    expect(small.toString('latin1')).toContain('compositeWithTrainedAlgorithmicMedia');
    expect((await account.api.get('/balance')).body).toEqual(before.body);
    expect(((await account.api.get('/jobs')).body as { jobs: unknown[] }).jobs).toEqual([]);
    const { capability: _, ...body } = swap;
    const { id } = await account.api.swap(body as { image_key: string; face_key: string });
    const { output_url } = await account.api.finished(id);
    const output = Buffer.from(await (await fetch(output_url as string)).arrayBuffer());
    expect(await apart(small, output)).toBeLessThan(2);
    expect(await apart(small, ASTRONAUT.bytes)).toBeGreaterThan(await apart(small, output));
  });

  test('of a video is the frame at the time', async () => {
    const body = { capability: 'face-swap', video_key, face_key: swap.face_key };
    const [begin, early, late] = [
      await shown(body),
      await shown({ ...body, at_sec: 0.5 }),
      await shown({ ...body, at_sec: 1.5 }),
    ];
    expect((await sharp(begin).metadata()).width).toBe(512);
    expect(await apart(begin, early)).toBeLessThan(2);
    expect(await apart(begin, late)).toBeGreaterThan(20);
    expect(await apart(late, await shown({ ...body, at_sec: 86_400 }))).toBeLessThan(2);
  });

  test('of a video with `faces` gives the people that it shows the faces that were named', async () => {
    let answer = await account.api.post('/faces', { file_key: video_key });
    while (answer.status === 429) {
      await delay(1_000);
      answer = await account.api.post('/faces', { file_key: video_key });
    }
    const { faces } = answer.body as { faces: { face_id: string; at_sec: number }[] };
    const admiral = faces.find(({ at_sec }) => at_sec >= 1)?.face_id;
    expect(faces).toHaveLength(2);
    const body = {
      ...{ capability: 'face-swap', video_key },
      faces: [{ face_id: admiral, face_key: swap.image_key }],
    };
    const whole = { capability: 'face-swap', video_key, face_key: swap.image_key, at_sec: 1.5 };
    const [mapped, everybody] = [await shown({ ...body, at_sec: 1.5 }), await shown(whole)];
    expect((await sharp(mapped).metadata()).width).toBe(512);
    // It is the admiral's frame, with the same face as where everybody gets it.
    expect(await apart(mapped, everybody)).toBeLessThan(3);
    // At the beginning there is only the astronaut, who stays.
    const { response, bytes } = await preview({ ...body, at_sec: 0.5 });
    expect(response.status).toBe(400);
    expect(JSON.parse(bytes.toString()).error).toMatchObject({
      code: 'invalid_input',
      message: expect.stringMatching(/Nobody of faces was found in the frame of the video \(at_sec\)/),
    });
  });

  test('costs what the rate card says, once it is delivered, and needs the balance before', async () => {
    const payer = await stack.newAccount({ balanceUsd: 0.05 });
    const [image_key, face_key] = await Promise.all([payer.api.upload(ASTRONAUT), payer.api.upload(ADMIRAL)]);
    const body = { capability: 'face-swap-image', image_key, face_key };
    const set = (usd: number) =>
      stack.admin('rates', 'set', {
        ...{ capability: 'face-swap-image', account: payer.accountId, 'preview-usd': String(usd) },
      });
    await set(0.03);
    const { capabilities } = (await payer.api.get('/pricing')).body as {
      capabilities: { capability: string; preview_usd?: number }[];
    };
    const prices = capabilities.flatMap(({ capability, preview_usd: usd }) =>
      usd === undefined ? [] : [[capability, usd]],
    );
    expect(Object.fromEntries(prices)).toEqual({ 'face-swap-image': 0.03, 'face-swap': 0 });
    const refused = await preview(
      { ...body, face_key: image_key, image_key: await payer.api.upload(await faceless('jpeg', 320, 240)) },
      payer,
    );
    expect(refused.response.status).toBe(400);
    expect((await payer.api.balance()).balance_usd).toBe(0.05);
    expect((await preview(body, payer)).response.status).toBe(200);
    expect(await payer.api.balance()).toMatchObject({ balance_usd: 0.02, total_spent_usd: 0.03 });
    expect((await payer.api.get('/usage')).body).toMatchObject([
      {
        id: expect.stringMatching(/^prev-/),
        endpoint: 'face-swap-image',
        status: 'succeeded',
        charged_usd: 0.03,
      },
    ]);
    const answer = await payer.api.post('/preview', body);
    expect(expectError(answer, 'insufficient_balance')).toMatch(/0\.03 USD; 0\.02 USD are available/);
    await set(0);
    expect((await preview(body, payer)).response.status).toBe(200);
    expect((await payer.api.balance()).balance_usd).toBe(0.02);
  });

  test('is refused for what its job would fail with, in words', async () => {
    const { response, bytes } = await preview({ ...swap, image_key: nobody });
    expect(response.status).toBe(400);
    expect(JSON.parse(bytes.toString()).error).toMatchObject({
      code: 'invalid_input',
      message: expect.stringMatching(/No face was found in the base image/),
    });
  });

  test.each<[string, () => unknown, RegExp]>([
    ['another capability', () => ({ ...swap, capability: 'avatar' }), /face-swap-image, face-swap/],
    ['no capability', () => ({ ...swap, capability: undefined }), /capability/],
    ['a missing picture', () => ({ capability: 'face-swap-image', face_key: swap.face_key }), /image_key/],
    ['a time below 0', () => ({ ...swap, at_sec: -1 }), /at_sec/],
    ['a time in words', () => ({ ...swap, at_sec: 'soon' }), /at_sec/],
    ['an unknown key', () => ({ ...swap, image_key: 'api/up-none' }), /image_key/],
    ['a sound for a picture', () => [1], /object/],
  ])('is refused with %s', async (_, body, named) => {
    const answer = await account.api.post('/preview', body());
    expect(expectError(answer, 'invalid_input')).toMatch(named);
  });

  test('is its account’s alone, and needs a key', async () => {
    const stranger = await stack.newAccount({ balanceUsd: 1 });
    expectError(await stranger.api.post('/preview', swap), 'invalid_input');
    expectError(await apiOf({ baseUrl: account.api.baseUrl }).post('/preview', swap), 'unauthorized');
  });
});
