import { execFile } from 'node:child_process';
import { copyFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import sharp from 'sharp';

const run = promisify(execFile);
const MEDIA = join(import.meta.dirname, '../../../media');

export const PORTRAIT = join(MEDIA, 'astronaut.png');

export interface Sample {
  readonly file: string;
  readonly contentType: string;
}

/** Creates files of every output type, in all forms of their containers. */
export async function makeSamples(dir: string): Promise<Record<string, Sample>> {
  const at = (file: string, contentType: string): Sample => ({ file: join(dir, file), contentType });
  const samples = {
    jpeg: at('baseline.jpg', 'image/jpeg'),
    'progressive jpeg with Exif': at('progressive.jpg', 'image/jpeg'),
    png: at('picture.png', 'image/png'),
    'lossy webp': at('lossy.webp', 'image/webp'),
    'lossless webp with transparency': at('lossless.webp', 'image/webp'),
    'mp4 with its index first': at('first.mp4', 'video/mp4'),
    'mp4 with its index last': at('last.mp4', 'video/mp4'),
  };
  const small = sharp(await sharp(PORTRAIT).resize(250, 199).toBuffer());
  await copyFile(join(MEDIA, 'grace_hopper.jpg'), samples.jpeg.file);
  await small
    .clone()
    .withExif({ IFD0: { ImageDescription: 'kept' } })
    .jpeg({ progressive: true })
    .toFile(samples['progressive jpeg with Exif'].file);
  await small.clone().png().toFile(samples.png.file);
  await small.clone().webp().toFile(samples['lossy webp'].file);
  await small
    .clone()
    .ensureAlpha(0.5)
    .webp({ lossless: true })
    .toFile(samples['lossless webp with transparency'].file);
  await video(samples['mp4 with its index first'].file, '-movflags', 'faststart');
  await video(samples['mp4 with its index last'].file);
  return samples;
}

async function video(file: string, ...flags: string[]): Promise<void> {
  const picture = ['-f', 'lavfi', '-i', 'testsrc2=s=160x120:d=2:r=25'];
  const sound = ['-f', 'lavfi', '-i', 'sine=d=2'];
  const codecs = ['-c:v', 'libx264', '-preset', 'ultrafast', '-pix_fmt', 'yuv420p', '-c:a', 'aac'];
  await run('ffmpeg', ['-v', 'error', ...picture, ...sound, ...codecs, ...flags, file]);
}

/** Returns what a viewer decodes: the pixels of a picture, or a hash of every frame and sample. */
export async function decoded(file: string, contentType: string): Promise<string> {
  if (contentType === 'video/mp4') {
    const { stdout } = await run('ffmpeg', ['-v', 'error', '-i', file, '-f', 'framemd5', '-']);
    return stdout;
  }
  const { data, info } = await sharp(file).raw().toBuffer({ resolveWithObject: true });
  return `${info.width}x${info.height}x${info.channels} ${data.toString('base64')}`;
}
