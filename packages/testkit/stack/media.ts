import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import sharp from 'sharp';
import { wavOf } from '../sound/wav.ts';
import type { Upload } from './api.ts';
import { root } from './stack-process.ts';

/** The two people of the demo: a 512×512 PNG and a 512×600 JPEG. */
export const ASTRONAUT = portrait('astronaut.png', 'image/png');
export const ADMIRAL = portrait('grace_hopper.jpg', 'image/jpeg');
/** A grey picture of a speaker, who is turned to the side, and of a smaller man behind him. */
export const PROFESSOR = portrait('einstein.jpg', 'image/jpeg');

function portrait(filename: string, contentType: string): Upload {
  return { filename, contentType, bytes: readFileSync(join(root, 'media', filename)) };
}

/** Returns a real, decodable picture without a face. */
export async function faceless(
  format: 'png' | 'jpeg' | 'webp' = 'png',
  width = 320,
  height = 240,
): Promise<Upload> {
  // A gradient has structure everywhere, as photographs have; a single colour has none.
  const pixels = Buffer.alloc(width * height * 3);
  for (let y = 0, at = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      pixels[at++] = (x * 255) / width;
      pixels[at++] = (y * 255) / height;
      pixels[at++] = 128;
    }
  }
  const bytes = await sharp(pixels, { raw: { width, height, channels: 3 } })
    .toFormat(format)
    .toBuffer();
  return { filename: `plain.${format === 'jpeg' ? 'jpg' : format}`, contentType: `image/${format}`, bytes };
}

/** Returns the astronaut enlarged to `side` × `side`, which takes an engine a while. */
export async function largePortrait(side: number): Promise<Upload> {
  const bytes = await sharp(Buffer.from(ASTRONAUT.bytes)).resize(side, side).jpeg({ quality: 85 }).toBuffer();
  return { filename: 'large.jpg', contentType: 'image/jpeg', bytes };
}

/**
 * Returns a picture whose job lasts seconds, so that a test can act during the job. Encoding a PNG of 16 megapixels
 * alone takes longer than the time after which a RenderJob shows its attempt.
 */
export async function longPortrait(): Promise<Upload> {
  const bytes = await sharp(Buffer.from(ASTRONAUT.bytes)).resize(4_000, 4_000).png().toBuffer();
  return { filename: 'long.png', contentType: 'image/png', bytes };
}

/** Returns a file with the signature of a JPEG and no picture. */
export function brokenJpeg(): Upload {
  const head = Buffer.from('ffd8ffe000104a46494600010100000100010000', 'hex');
  const bytes = Buffer.concat([head, Buffer.alloc(2_000, 0x5a)]);
  return { filename: 'broken.jpg', contentType: 'image/jpeg', bytes };
}

/** Returns a second of silence, or `bytes` in all: 16-bit mono PCM at 16 kHz in a RIFF file. */
export function wav(bytes = 44 + 32_000): Upload {
  const file = wavOf(Buffer.alloc(bytes - 44), 16_000);
  return { filename: 'tone.wav', contentType: 'audio/wav', bytes: file };
}

/** Returns the first boxes of an ISO base media file: recognisable, but without a picture. */
export function isoMedia(brand: string): Buffer {
  const box = (type: string, body: Buffer) => {
    const size = Buffer.alloc(4);
    size.writeUInt32BE(8 + body.length);
    return Buffer.concat([size, Buffer.from(type, 'latin1'), body]);
  };
  const brands = Buffer.from(`${brand}\0\0\0\0${brand}mp42`, 'latin1');
  return Buffer.concat([
    box('ftyp', brands),
    box('moov', box('mvhd', Buffer.alloc(100))),
    box('mdat', Buffer.alloc(64)),
  ]);
}

export const MP4: Upload = { filename: 'clip.mp4', contentType: 'video/mp4', bytes: isoMedia('isom') };

/** EBML header of a WebM file, with an empty segment. */
export const WEBM: Upload = {
  filename: 'clip.webm',
  contentType: 'video/webm',
  bytes: Buffer.from(
    '1a45dfa39f4286810142f7810142f2810442f381084282847765626d4287810442858102185380670100000000000000',
    'hex',
  ),
};
