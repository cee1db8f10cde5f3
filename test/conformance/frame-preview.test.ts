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
async function preview(body: unknown) {
  for (;;) {
    const response = await fetch(`${account.api.baseUrl}/preview`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${account.apiKey}`, 'Content-Type': 'application/json' },
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
