import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { silentLogger } from '@semblance/common/logging';
import type { MediaKind } from '@semblance/engine-api/capabilities';
import sharp, { type Sharp } from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { CheckSubject, ContentCheck } from '../check.ts';
import { hashList } from './hash-list.ts';

const run = promisify(execFile);
const ROOT = join(import.meta.dirname, '../../..');
const FORBIDDEN = join(ROOT, 'media/astronaut.png');
const DEMO = join(ROOT, 'node_modules/@vladmandic/face-api/demo');
const OTHERS = [
  join(ROOT, 'media/einstein.jpg'),
  join(ROOT, 'media/grace_hopper.jpg'),
  ...[1, 2, 3, 4, 5, 6].map((number) => join(DEMO, `sample${number}.jpg`)),
];
const idle = new AbortController().signal;

let dir: string;
let list: string;
let check: ContentCheck;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'semblance-hash-list-'));
  list = join(dir, 'list.txt');
  const { stdout } = await run(process.execPath, [join(import.meta.dirname, 'hash-file.ts'), FORBIDDEN]);
  await writeFile(list, `# not here\n\n${stdout}`);
  check = hashList({ list, distance: 31, logger: silentLogger(), timeoutMs: 60_000 });
}, 60_000);
afterAll(async () => {
  await check.close();
  await rm(dir, { recursive: true, force: true });
});

function subject(paths: string[], kind: MediaKind = 'image', phase: CheckSubject['phase'] = 'input') {
  const files = paths.map((path, index) => ({ role: `file_${index}`, path, kind }));
  return { phase, jobName: 'job', capability: 'face-swap-image' as const, parameters: {}, files };
}
const REJECTED = { allowed: false, reason: 'The input file_0 is not allowed here.' };

const COPIES: Record<string, (picture: Sharp) => Sharp> = {
  'the file itself': (picture) => picture.png(),
  'half its size, as a JPEG of quality 40': (picture) => picture.resize(256).jpeg({ quality: 40 }),
  'a WebP of three times its size': (picture) => picture.resize(1_536).webp({ quality: 60 }),
  'in grey': (picture) => picture.grayscale().jpeg(),
  brighter: (picture) => picture.modulate({ brightness: 1.2 }).jpeg(),
  blurred: (picture) => picture.blur(2).jpeg(),
  'in a mirror': (picture) => picture.flop().jpeg(),
  'stored on its side, upright by its Exif': (picture) =>
    picture.rotate(-90).withMetadata({ orientation: 6 }).jpeg(),
};

describe('a hash list', () => {
  it.each(Object.entries(COPIES))('finds a copy: %s', async (_title, change) => {
    const copy = join(dir, 'copy');
    await change(sharp(FORBIDDEN)).toFile(copy);
    expect(await check.check(subject([copy]), idle)).toEqual(REJECTED);
  });

  it('takes no other picture for one', async () => {
    expect(await check.check(subject(OTHERS), idle)).toEqual({ allowed: true });
  });

  it('finds one second of it in a video, and nothing in a video without it', {
    tags: ['ffmpeg'],
  }, async () => {
    const still = ['-loop', '1', '-t', '1.5', '-i', FORBIDDEN];
    const other = ['-f', 'lavfi', '-t', '2', '-i', 'testsrc2=s=320x320:r=25'];
    const clip = join(dir, 'clip.mp4');
    const join_ = '[0:v]scale=320:320,fps=25,setsar=1[a];[1:v]setsar=1,format=yuvj420p[b];[b][a]concat=n=2';
    const encode = ['-c:v', 'libx264', '-preset', 'ultrafast', '-pix_fmt', 'yuv420p'];
    await run('ffmpeg', ['-v', 'error', ...still, ...other, '-filter_complex', join_, ...encode, clip]);
    expect(await check.check(subject([clip], 'video'), idle)).toEqual(REJECTED);
    const without = join(dir, 'without.mp4');
    await run('ffmpeg', ['-v', 'error', ...other, ...encode, without]);
    expect(await check.check(subject([without], 'video'), idle)).toEqual({ allowed: true });
  });

  it('knows a file of any kind by its SHA-256, and takes a change of the list without a restart', async () => {
    const own = join(dir, 'own.txt');
    const sound = join(dir, 'sound');
    await writeFile(sound, 'a sound');
    await writeFile(own, `sha256 ${'0'.repeat(64)}\n`);
    const checking = hashList({ list: own, distance: 31, logger: silentLogger(), timeoutMs: 60_000 });
    try {
      expect(await checking.check(subject([sound], 'audio', 'output'), idle)).toEqual({ allowed: true });
      const { stdout } = await run(process.execPath, [join(import.meta.dirname, 'hash-file.ts'), sound]);
      await writeFile(own, stdout.toUpperCase().replace('SHA256', 'sha256'));
      expect(await checking.check(subject([sound], 'audio', 'output'), idle)).toEqual({
        allowed: false,
        reason: 'The result is not allowed here.',
      });
      await writeFile(own, 'sha1 abc\n');
      await expect(checking.check(subject([sound], 'audio'), idle)).rejects.toMatchObject({
        name: 'ContentCheckError',
        message: expect.stringContaining('line 1: an entry begins with sha256 or pdq'),
      });
      await rm(own);
      await expect(checking.check(subject([sound], 'audio'), idle)).rejects.toThrow('own.txt cannot be used');
    } finally {
      await checking.close();
    }
  });

  it('does not let through what it cannot read', { tags: ['ffmpeg'] }, async () => {
    const broken = join(dir, 'broken');
    await writeFile(broken, (await readFile(FORBIDDEN)).subarray(0, 3_000));
    for (const kind of ['image', 'video'] as const) {
      await expect(check.check(subject([broken], kind), idle)).rejects.toMatchObject({
        name: 'RenderError',
        code: 'unsupported_format',
      });
    }
  });

  it('refuses pictures that no engine takes, for the same reason as engines', async () => {
    const create = { width: 8_000, height: 5_001, channels: 3 as const, background: '#808080' };
    const large = join(dir, 'large.png');
    await sharp({ create }).png({ compressionLevel: 1 }).toFile(large);
    await expect(check.check(subject([large]), idle)).rejects.toMatchObject({
      name: 'RenderError',
      code: 'input_too_large',
      message: 'The input file_0 has 8000 × 5001 pixels; at most 40 megapixels are taken.',
    });
    const foreign = join(dir, 'foreign.tif');
    await sharp(FORBIDDEN).tiff().toFile(foreign);
    await expect(check.check(subject([foreign]), idle)).rejects.toMatchObject({
      name: 'RenderError',
      code: 'unsupported_format',
    });
    // An output is compared, whatever its type.
    expect(await check.check(subject([foreign], 'image', 'output'), idle)).toMatchObject({ allowed: false });
  });

  it('ends with its job, answers the next, and survives the end of its process', async () => {
    const controller = new AbortController();
    const reason = new Error('stopped');
    const looking = check.check(subject(OTHERS), controller.signal);
    controller.abort(reason);
    await expect(looking).rejects.toBe(reason);
    const impatient = hashList({ list, distance: 31, logger: silentLogger(), timeoutMs: 1 });
    await expect(impatient.check(subject(OTHERS), idle)).rejects.toThrow(
      'the check hash-list came no further within',
    );
    await impatient.close();
    expect(await check.check(subject([FORBIDDEN]), idle)).toEqual(REJECTED);
  });
});
