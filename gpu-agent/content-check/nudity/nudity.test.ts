import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { silentLogger } from '@semblance/common/logging';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CheckedFile, ContentCheck } from '../check.ts';
import { type Classifier, openClassifier } from './classifier.ts';
import { nudity } from './nudity.ts';

const MEDIA = join(import.meta.dirname, '../../../media');
const PORTRAITS = ['astronaut.png', 'grace_hopper.jpg', 'einstein.jpg'].map((name) => join(MEDIA, name));
const idle = new AbortController().signal;

let dir: string;
let classifier: Classifier;
const made: ContentCheck[] = [];
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'semblance-nudity-'));
  classifier = await openClassifier();
});
afterAll(async () => {
  await Promise.all(made.map((check) => check.close()));
  await rm(dir, { recursive: true, force: true });
});

function check(threshold: number) {
  const own = nudity({ threshold, logger: silentLogger(), timeoutMs: 60_000 });
  made.push(own);
  return (files: readonly CheckedFile[], phase: 'input' | 'output' = 'input') =>
    own.check({ phase, jobName: 'job', capability: 'face-swap-image', parameters: {}, files }, idle);
}
const picture = (path: string): CheckedFile => ({ role: 'image', path, kind: 'image' });

describe('the nudity check', () => {
  it('lets portraits pass by its default, and refuses what reaches a threshold', async () => {
    const shares = await Promise.all(PORTRAITS.map((path) => classifier.ofPicture(path)));
    for (const share of shares) expect(share).toBeLessThan(0.2);
    const byDefault = check(0.7);
    expect(await byDefault(PORTRAITS.map(picture))).toEqual({ allowed: true });
    const highest = Math.max(...shares);
    const strict = check(highest);
    const path = PORTRAITS[shares.indexOf(highest)] ?? '';
    expect(await strict([picture(path)])).toEqual({
      allowed: false,
      reason: 'The input image is not allowed here.',
    });
    expect(await strict([picture(path)], 'output')).toEqual({
      allowed: false,
      reason: 'The result is not allowed here.',
    });
  });

  it('looks at a frame of each second of a video', { tags: ['ffmpeg'] }, async () => {
    const [portrait = ''] = PORTRAITS;
    const clip = join(dir, 'clip.mp4');
    const still = [
      '-f',
      'lavfi',
      '-t',
      '2',
      '-i',
      'color=gray:s=320x320:r=25',
      '-loop',
      '1',
      '-t',
      '1.5',
      '-i',
      portrait,
    ];
    const filter =
      '[1:v]scale=320:320,fps=25,setsar=1,format=yuv420p[b];[0:v]format=yuv420p,setsar=1[a];[a][b]concat=n=2';
    await promisify(execFile)('ffmpeg', [
      ...['-v', 'error', ...still, '-filter_complex', filter],
      ...['-c:v', 'libx264', '-preset', 'ultrafast', clip],
    ]);
    const share = await classifier.ofPicture(portrait);
    const grey = join(dir, 'grey.png');
    await sharp({ create: { width: 320, height: 320, channels: 3, background: '#808080' } })
      .png()
      .toFile(grey);
    const plain = await classifier.ofPicture(grey);
    // Which of the two has the higher share does not matter: the higher one is found, and nothing above it.
    const highest = Math.max(share, plain);
    const video: CheckedFile = { role: 'video', path: clip, kind: 'video' };
    expect(await check(highest * 0.6)([video])).toMatchObject({ allowed: false });
    expect(await check(0.7)([video])).toEqual({ allowed: true });
  });

  it('passes sound, and refuses what it cannot read', async () => {
    const byDefault = check(0.7);
    const sound = join(dir, 'sound');
    await writeFile(sound, 'a sound');
    expect(await byDefault([{ role: 'audio', path: sound, kind: 'audio' }])).toEqual({ allowed: true });
    const broken = join(dir, 'broken');
    await writeFile(broken, (await readFile(PORTRAITS[0] ?? '')).subarray(0, 3_000));
    await expect(byDefault([picture(broken)])).rejects.toMatchObject({
      name: 'RenderError',
      code: 'unsupported_format',
    });
    const foreign = join(dir, 'foreign.tif');
    await sharp(PORTRAITS[0]).tiff().toFile(foreign);
    await expect(byDefault([picture(foreign)])).rejects.toMatchObject({ code: 'unsupported_format' });
  });
});
