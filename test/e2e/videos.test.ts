/**
 * @module-tag ffmpeg
 * @module-tag speech
 */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/stack/media';
import { type Account, sharedStack } from '@semblance/testkit/stack/stack';
import sharp from 'sharp';
import { afterAll, beforeAll, expect, test } from 'vitest';

/** Tests each capability that makes a video, through the whole system: uploads, a job, its output and its price. */
const run = promisify(execFile);
let dir: string;
let account: Account;
let keys: Record<'video' | 'audio' | 'image', string>;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'semblance-videos-'));
  account = await (await sharedStack()).newAccount();
  const [portrait, video, audio] = ['portrait.png', 'video.mp4', 'audio.wav'].map((name) => join(dir, name));
  await writeFile(portrait as string, ASTRONAUT.bytes);
  await run('flite', ['-voice', 'slt', '-t', 'Bring me the big blue map.', '-o', audio as string]);
  // The clip is a swaying portrait at 15 frames per second, with sound.
  const sway = "scale=480:480,crop=360:360:'60+12*sin(t*4)':40,fps=15,format=yuv420p";
  const clip = ['-loop', '1', '-i', portrait, '-i', audio, '-vf', sway, '-t', '1.2', '-c:a', 'aac', video];
  await run('ffmpeg', ['-v', 'error', '-nostdin', ...(clip as string[])]);
  const { api } = account;
  keys = {
    image: await api.upload(ADMIRAL),
    video: await api.upload({
      filename: 'v.mp4',
      contentType: 'video/mp4',
      bytes: await readFile(video as string),
    }),
    audio: await api.upload({
      filename: 'a.wav',
      contentType: 'audio/wav',
      bytes: await readFile(audio as string),
    }),
  };
});

afterAll(() => rm(dir, { recursive: true, force: true }));

interface Probe {
  readonly streams: readonly {
    readonly codec_type: string;
    readonly codec_name: string;
    readonly duration: string;
  }[];
}

test.each([
  ['face-swap', () => ({ video_key: keys.video, face_key: keys.image })],
  ['character-swap', () => ({ video_key: keys.video, character_key: keys.image })],
  ['lip-sync', () => ({ video_key: keys.video, audio_key: keys.audio })],
  ['motion-control', () => ({ image_key: keys.image, motion_video_key: keys.video })],
  ['avatar', () => ({ image_key: keys.image, script: 'Good morning, everybody.' })],
])('%s makes a video with sound, charged by its seconds', async (capability, body) => {
  const { api } = account;
  const { body: submitted } = await api.post(`/${capability}`, body());
  expect(submitted).toMatchObject({ status: 'queued' });
  const job = await api.finished((submitted as { id: string }).id);
  expect(job).toMatchObject({ status: 'succeeded', error: null });
  const file = join(dir, `${capability}.mp4`);
  await writeFile(file, Buffer.from(await (await fetch(job.output_url ?? '')).arrayBuffer()));
  const { stdout } = await run('ffprobe', ['-v', 'error', '-show_streams', '-of', 'json', file]);
  const { streams } = JSON.parse(stdout) as Probe;
  expect(streams.map(({ codec_type, codec_name }) => `${codec_type} ${codec_name}`).sort()).toEqual([
    'audio aac',
    'video h264',
  ]);
  const seconds = Number(streams.find(({ codec_type }) => codec_type === 'video')?.duration);
  expect(seconds).toBeGreaterThan(0.8);
  // A moment of the video, with something to be seen.
  const preview = sharp(Buffer.from(await (await fetch(job.preview_url ?? '')).arrayBuffer()));
  const { format, width, height } = await preview.metadata();
  expect([format, Math.max(width, height)]).toEqual(['jpeg', 320]);
  expect(Math.max(...(await preview.stats()).channels.map(({ stdev }) => stdev))).toBeGreaterThan(20);
  const { body: card } = await api.get('/pricing');
  const rates = (card as { capabilities: Rate[] }).capabilities.find(
    (rate) => rate.capability === capability,
  );
  expect(rates).toMatchObject({ unit: 'second', enabled: true });
  const rate = rates?.rates.find(({ when }) => Object.keys(when).length === 0)?.rate_usd ?? Number.NaN;
  // The charge must match the length of the output to the millisecond.
  const price = Math.max(rates?.minimum_usd ?? Number.NaN, rate * seconds);
  expect(Math.abs((job.charged_usd ?? Number.NaN) - price)).toBeLessThanOrEqual(rate * 0.001);
});

test('a clip costs the same whether a submit asks for its size, for a larger one or for none', async () => {
  const own = await (await sharedStack()).newAccount();
  const { api } = own;
  await (await sharedStack()).admin('rates', 'set', {
    capability: 'face-swap',
    account: own.accountId,
    'minimum-usd': '0',
  });
  const [video_key, face_key] = await Promise.all([
    api.upload({
      filename: 'v.mp4',
      contentType: 'video/mp4',
      bytes: await readFile(join(dir, 'video.mp4')),
    }),
    api.upload(ADMIRAL),
  ]);
  const charges = [];
  for (const size of [{}, { output_resolution_p: 480 }, { output_resolution_p: 1080 }]) {
    const { body } = await api.post('/face-swap', { video_key, face_key, ...size });
    const { status, charged_usd } = await api.finished((body as { id: string }).id);
    expect(status).toBe('succeeded');
    charges.push(charged_usd);
  }
  // The frames have 360 lines, for which the rate is that of 480.
  expect(charges).toEqual([0.018, 0.018, 0.018]);
});

test('character-swap with a character that would be a blur says so, and costs nothing', async () => {
  const { api } = account;
  const close = join(dir, 'close.mp4');
  const near = ['-vf', 'crop=256:256:96:0,scale=960:960,fps=15,format=yuv420p', '-t', '0.4', close];
  await run('ffmpeg', ['-v', 'error', '-nostdin', '-loop', '1', '-i', join(dir, 'portrait.png'), ...near]);
  const video_key = await api.upload({
    filename: 'close.mp4',
    contentType: 'video/mp4',
    bytes: await readFile(close),
  });
  const small = await sharp(Buffer.from(ADMIRAL.bytes)).resize({ height: 150 }).png().toBuffer();
  const character_key = await api.upload({ filename: 'a.png', contentType: 'image/png', bytes: small });
  const before = await api.balance();
  const { body } = await api.post('/character-swap', { video_key, character_key });
  const job = await api.finished((body as { id: string }).id);
  expect(job).toMatchObject({
    status: 'failed',
    charged_usd: 0,
    output_url: null,
    error: {
      code: 'processing_failed',
      message: expect.stringMatching(/character_key.*too small for this video/),
    },
  });
  expect((await api.balance()).balance_usd).toBe(before.balance_usd);
});

interface Rate {
  readonly capability: string;
  readonly rates: readonly { readonly when: Record<string, string>; readonly rate_usd: number }[];
  readonly minimum_usd: number;
}
