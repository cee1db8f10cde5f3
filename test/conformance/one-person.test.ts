/**
 * @module-tag ffmpeg
 * @module-tag speech
 */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { speakScript } from '@semblance/speech/speech';
import { findSpeechTools } from '@semblance/speech/tools';
import { GROUP } from '@semblance/testkit/engine-builtin/group';
import { expectError } from '@semblance/testkit/stack/expect-error';
import { ADMIRAL } from '@semblance/testkit/stack/media';
import { type Account, type Stack, sharedStack } from '@semblance/testkit/stack/stack';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

/** Additions to the specification: the one person of a video whom a job is about. */
interface Found {
  readonly faces: readonly {
    face_id: string;
    box: { x: number; y: number; width: number; height: number };
  }[];
}

const run = promisify(execFile);
const SIZE = { width: 960, height: 700 };

let stack: Stack;
let account: Account;
let dir: string;
/** A clip of five people, and who was found in it. */
let video_key: string;
let clip: string;
let found: Found['faces'];
let astray: string;
let audio_key: string;
let image_key: string;

beforeAll(async () => {
  stack = await sharedStack();
  account = await stack.newAccount({ balanceUsd: 50 });
  dir = await mkdtemp(join(tmpdir(), 'semblance-one-person-'));
  clip = join(dir, 'five.mp4');
  const scaled = `scale=${SIZE.width}:${SIZE.height},setsar=1`;
  const input = ['-loop', '1', '-t', '2', '-r', '10', '-i', GROUP, '-vf', scaled];
  await run('ffmpeg', [
    '-v',
    'error',
    ...input,
    '-c:v',
    'libx264',
    '-crf',
    '14',
    '-pix_fmt',
    'yuv420p',
    clip,
  ]);
  const upload = { filename: 'five.mp4', contentType: 'video/mp4', bytes: await readFile(clip) };
  video_key = await account.api.upload(upload);
  found = await facesOf(video_key);
  image_key = await account.api.upload(ADMIRAL);
  astray = (await facesOf(image_key))[0]?.face_id ?? '';
  const tools = await findSpeechTools();
  if (!tools.available) throw new Error(tools.reason);
  const path = join(dir, 'voice.wav');
  const script = 'My father bought a big map of Panama.';
  const signal = AbortSignal.timeout(60_000);
  await speakScript({ script, voiceId: 'slt', path, directory: dir, tools, signal });
  audio_key = await account.api.upload({
    filename: 'voice.wav',
    contentType: 'audio/wav',
    bytes: await readFile(path),
  });
}, 240_000);
afterAll(() => rm(dir, { recursive: true, force: true }));

async function facesOf(file_key: string): Promise<Found['faces']> {
  for (;;) {
    const answer = await account.api.post('/faces', { file_key });
    if (answer.status === 200) return (answer.body as Found).faces;
    expectError(answer, 'at_capacity');
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
}

/** Returns the mean brightness of the lower half of each found face, in each of some frames of a video. */
async function mouthsOf(path: string): Promise<number[][]> {
  const frames = await mkdtemp(join(dir, 'frames-'));
  await run('ffmpeg', ['-v', 'error', '-i', path, '-vf', 'fps=10', join(frames, '%02d.png')]);
  const seen: number[][] = [];
  for (let i = 1; i <= 18; i++) {
    const file = await readFile(join(frames, `${String(i).padStart(2, '0')}.png`));
    seen.push([]);
    for (const { box } of found) {
      const area = {
        left: Math.round((box.x + box.width / 4) * SIZE.width),
        top: Math.round((box.y + 0.6 * box.height) * SIZE.height),
        width: Math.round((box.width / 2) * SIZE.width),
        height: Math.round(0.35 * box.height * SIZE.height),
      };
      const { channels } = await sharp(await sharp(file).extract(area).png().toBuffer()).stats();
      seen.at(-1)?.push(channels[0]?.mean ?? 0);
    }
  }
  return seen;
}

async function finished(path: string, body: object) {
  const answer = await account.api.post(path, body);
  expect(answer.status, answer.text).toBe(200);
  const { id } = answer.body as { id: string };
  const job = await account.api.finished(id);
  expect(job.status, JSON.stringify(job.error)).toBe('succeeded');
  const headers = { Authorization: `Bearer ${account.apiKey}` };
  const events = await (await fetch(`${account.api.baseUrl}/jobs/${id}/events`, { headers })).text();
  const spec = JSON.stringify((await stack.kubectl.renderJob(id))?.spec);
  const { mapped_faces: mapped } = job.details as unknown as {
    mapped_faces: { face_id: string; given: string | null; frames: number }[];
  };
  // The last event tells the same, and nothing that people are recognised by is in the cluster.
  expect(events).toContain(JSON.stringify(mapped));
  expect(spec).toContain('faces_sha256');
  expect(spec).not.toContain('look');
  return { job, mapped };
}

describe('`speaker_face_id` of Lip Sync', () => {
  test('names who of five speaks, and no other mouth moves', async () => {
    expect(found).toHaveLength(5);
    const speaker = 2;
    const speaker_face_id = found[speaker]?.face_id;
    const { job, mapped } = await finished('/lip-sync', { video_key, audio_key, speaker_face_id });
    expect(mapped).toEqual(
      found.map(({ face_id }, place) =>
        place === speaker
          ? { face_id, given: 'audio_key', frames: expect.any(Number) }
          : { face_id, given: null, frames: 0 },
      ),
    );
    expect(mapped[speaker]?.frames).toBeGreaterThan(15);
    const out = join(dir, 'out.mp4');
    await writeFile(out, Buffer.from(await (await fetch(job.output_url ?? '')).arrayBuffer()));
    const [before, after] = [await mouthsOf(clip), await mouthsOf(out)];
    const moved = found.map((_, place) =>
      Math.max(
        ...after.map((frame, i) => Math.abs((frame[place] as number) - (before[i]?.[place] as number))),
      ),
    );
    for (const [place, most] of moved.entries())
      if (place === speaker) expect(most).toBeGreaterThan(2);
      else expect(most, `person ${place}`).toBeLessThan(1);
  }, 240_000);
});

describe('`face_id` of Motion Transfer', () => {
  test('names who of five drives', async () => {
    const { mapped } = await finished('/motion-control', {
      image_key,
      motion_video_key: video_key,
      face_id: found[2]?.face_id,
    });
    expect(mapped).toEqual(
      found.map(({ face_id }, place) =>
        place === 2 ? { face_id, given: 'image_key', frames: 20 } : { face_id, given: null, frames: 0 },
      ),
    );
  }, 120_000);
});

describe('`face_id` of Identity Swap', () => {
  test('names who of five is replaced', async () => {
    const { mapped } = await finished('/character-swap', {
      video_key,
      character_key: image_key,
      face_id: found[2]?.face_id,
    });
    expect(mapped.map(({ given }) => given)).toEqual(
      found.map((_, place) => (place === 2 ? 'character_key' : null)),
    );
    expect(mapped[2]?.frames).toBeGreaterThan(15);
  }, 120_000);
});

describe.each<[path: string, field: string, target: string, body: () => Promise<object>]>([
  ['/lip-sync', 'speaker_face_id', 'video_key', async () => ({ video_key, audio_key })],
  [
    '/motion-control',
    'face_id',
    'motion_video_key',
    async () => ({ image_key, motion_video_key: video_key }),
  ],
  ['/character-swap', 'face_id', 'video_key', async () => ({ video_key, character_key: image_key })],
])('%s with `%s`', (path, field, target, body) => {
  test.each<[string, () => unknown, string]>([
    ['of another file', () => astray, `is of nobody whom POST /faces found in ${target}`],
    ['of nobody', () => `face-${'0'.repeat(26)}`, 'is of nobody'],
    ['that is none', () => 'me', 'must be a face_id'],
    ['that is a number', () => 7, 'must be a face_id'],
    ['that is a list', () => [found[0]?.face_id], 'must be a face_id'],
  ])('%s is refused at submit and estimate, and holds nothing', async (_what, id, message) => {
    const given = { ...(await body()), [field]: id() };
    const before = await account.api.balance();
    for (const [to, more] of [
      [path, {}],
      ['/estimate', { capability: path.slice(1) }],
    ] as const) {
      const text = expectError(await account.api.post(to, { ...given, ...more }), 'invalid_input');
      expect(text).toContain(`${field} ${message}`);
    }
    expect(await account.api.balance()).toEqual(before);
  });

  test('of another account’s file is refused', async () => {
    const { api } = await stack.newAccount({ balanceUsd: 5 });
    // The same file of another account has people of its own.
    const own = await api.upload({
      filename: 'f.mp4',
      contentType: 'video/mp4',
      bytes: await readFile(clip),
    });
    const given = { ...(await body()), [target]: own, [field]: found[0]?.face_id };
    expect(expectError(await api.post(path, given), 'invalid_input')).toContain(`${field} is of nobody`);
  });

  test('is part of what an Idempotency-Key stands for, and null is as if it were left out', async () => {
    const headers = { 'Idempotency-Key': `${field}${path}` };
    const given = await body();
    const send = (id: unknown) => account.api.post(path, { ...given, [field]: id }, headers);
    const [first, again] = [await send(null), await account.api.post(path, given, headers)];
    expect(first.status, first.text).toBe(200);
    const { id } = first.body as { id: string };
    expect((again.body as { id: string }).id).toBe(id);
    expectError(await send(found[1]?.face_id), 'invalid_input');
    expect((await account.api.finished(id)).details).not.toHaveProperty('mapped_faces');
  }, 120_000);
});
