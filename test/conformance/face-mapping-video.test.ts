/** @module-tag ffmpeg */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { GROUP } from '@semblance/testkit/engine-builtin/group';
import { expectError } from '@semblance/testkit/stack/expect-error';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/stack/media';
import { type Account, type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import { root } from '@semblance/testkit/stack/stack-process';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

/** Additions to the specification: the people of a video, and a face for each of them. */
interface Found {
  readonly kind: string;
  readonly frames: number;
  readonly faces: readonly {
    face_id: string;
    share: number;
    usable_as_source: boolean;
    at_sec: number;
  }[];
}

let stack: Stack;
let account: Account;
let dir: string;

beforeAll(async () => {
  stack = await sharedStack();
  account = await stack.newAccount({ balanceUsd: 5 });
  dir = await mkdtemp(join(tmpdir(), 'semblance-people-'));
}, 240_000);
afterAll(() => rm(dir, { recursive: true, force: true }));

/** Uploads stills, one after the other for some seconds each. */
async function clip(name: string, parts: readonly (readonly [file: string, seconds: number])[], rate = 10) {
  const path = join(dir, name);
  const inputs = parts.flatMap(([file, seconds]) => [
    '-loop',
    '1',
    '-t',
    String(seconds),
    '-r',
    String(rate),
    '-i',
    file,
  ]);
  const scaled = parts.map(
    (_, i) => `[${i}]scale=960:700:force_original_aspect_ratio=decrease,pad=960:700:-1:-1,setsar=1[v${i}]`,
  );
  const all = `${scaled.join(';')};${parts.map((_, i) => `[v${i}]`).join('')}concat=n=${parts.length}`;
  const encoded = ['-c:v', 'libx264', '-preset', 'ultrafast', '-pix_fmt', 'yuv420p', '-g', '50'];
  await promisify(execFile)('ffmpeg', ['-v', 'error', ...inputs, '-filter_complex', all, ...encoded, path]);
  return account.api.upload({ filename: name, contentType: 'video/mp4', bytes: await readFile(path) });
}

async function facesOf(file_key: string): Promise<Found> {
  for (;;) {
    const answer = await account.api.post('/faces', { file_key });
    if (answer.status === 200) return answer.body as Found;
    expectError(answer, 'at_capacity');
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

const media = (name: string) => join(root, 'media', name);

describe('POST /faces of a video', () => {
  test('tells people across cuts, and a job gives each the face that was named', async () => {
    const video_key = await clip('two.mp4', [
      [media('grace_hopper.jpg'), 1],
      [GROUP, 1],
      [media('grace_hopper.jpg'), 1],
    ]);
    const found = await facesOf(video_key);
    expect(found.kind).toBe('video');
    expect(found.faces).toHaveLength(6);
    expect(found.faces.every((face) => !face.usable_as_source)).toBe(true);
    // She is there before and after the group.
    const admiral = found.faces.find(({ share }) => share > 0.5);
    if (!admiral) throw new Error('nobody is in most frames');
    const astronaut = await account.api.upload(ASTRONAUT);
    const faces = [{ face_id: admiral.face_id, face_key: astronaut }];
    const answer = await account.api.post('/face-swap', { video_key, faces });
    expect(answer.status, answer.text).toBe(200);
    const job = await account.api.finished((answer.body as { id: string }).id);
    expect(job.status).toBe('succeeded');
    const { mapped_faces: mapped } = job.details as unknown as {
      mapped_faces: { face_id: string; given: string | null; frames: number }[];
    };
    expect(mapped).toHaveLength(6);
    for (const { face_id, given, frames } of mapped)
      expect([given, frames]).toEqual(face_id === admiral.face_id ? ['faces.0.face_key', 20] : [null, 0]);
  }, 120_000);

  test('of ten minutes is bounded, and finds who is in its middle', async () => {
    const file_key = await clip(
      'long.mp4',
      [
        [media('cat.jpg'), 290],
        [media('grace_hopper.jpg'), 60],
        [media('cat.jpg'), 250],
      ],
      2,
    );
    const found = await facesOf(file_key);
    expect(found.frames).toBeLessThanOrEqual(50);
    expect(found.faces).toHaveLength(1);
    expect(found.faces[0]?.at_sec).toBeGreaterThan(280);
    expect(found.faces[0]?.at_sec).toBeLessThan(360);
  }, 240_000);

  test('of nobody is empty, and a broken one is refused', async () => {
    expect((await facesOf(await clip('cat.mp4', [[media('cat.jpg'), 2]]))).faces).toEqual([]);
    const whole = await readFile(join(dir, 'two.mp4'));
    const bytes = whole.subarray(0, whole.length / 2);
    const file_key = await account.api.upload({ filename: 'cut.mp4', contentType: 'video/mp4', bytes });
    for (;;) {
      const answer = await account.api.post('/faces', { file_key });
      if (answer.status === 429) continue;
      expectError(answer, 'unsupported_format');
      return;
    }
  }, 120_000);

  test('an id of a picture is none of a video', async () => {
    const video_key = await clip('one.mp4', [[media('grace_hopper.jpg'), 1]]);
    const picture = await account.api.upload(ADMIRAL);
    const { faces } = await facesOf(picture);
    const given = [{ face_id: faces[0]?.face_id, face_key: picture }];
    const answer = await account.api.post('/face-swap', { video_key, faces: given });
    expect(expectError(answer, 'invalid_input')).toContain('of nobody whom POST /faces found in video_key');
  });
});
