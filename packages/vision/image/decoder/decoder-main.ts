import { readSync, writeSync } from 'node:fs';
import { isHeif } from '../container.ts';
import type { Answer, DecodeRequest, PictureLook, Request } from './protocol.ts';

/** Entry file of the process that decodes pictures of strangers. It has no file, and nothing but its two pipes. */

// libvips would put large pictures into files, which it cannot make here; the process has a limit of memory.
process.env.VIPS_DISC_THRESHOLD = '64g';
const { default: sharp } = await import('sharp');
const { asPng, lookAtHeif } = await import('./heif-to-png.ts');

const INPUT = 0;
const OUTPUT = 1;
const HEAD = Buffer.alloc(8);

/** Fills the whole of `into` from standard input; false at its end. */
function fill(into: Uint8Array): boolean {
  for (let at = 0; at < into.length; ) {
    const count = readSync(INPUT, into, at, into.length - at, null);
    if (count === 0) return false;
    at += count;
  }
  return true;
}

function write(bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length; ) at += writeSync(OUTPUT, bytes, at, bytes.length - at);
}

function send(answer: Answer, pixels: Uint8Array = new Uint8Array(0)): void {
  const text = Buffer.from(JSON.stringify(answer));
  const head = Buffer.alloc(HEAD.length);
  head.writeUInt32LE(text.length, 0);
  head.writeUInt32LE(pixels.length, 4);
  write(Buffer.concat([head, text]));
  write(pixels);
}

async function look(file: Buffer): Promise<PictureLook> {
  const heif = isHeif(file) ? await lookAtHeif(file) : undefined;
  const { width, height, pages, delay, space, depth, hasAlpha, icc } = await sharp(file, {
    failOn: 'error',
    limitInputPixels: false,
  }).metadata();
  const profile = heif ? heif.profile : icc;
  return {
    width,
    height,
    // The other pictures of a HEIF file are no frames of the first.
    pages: heif ? 1 : (pages ?? 1),
    ...(delay && { delays: delay }),
    space,
    depth,
    hasAlpha,
    ...(profile && { icc: profile.toString('base64') }),
    ...(heif?.fault && { fault: heif.fault }),
  };
}

async function decode(file: Buffer, how: DecodeRequest): Promise<void> {
  const { limit, space, depth, alpha, ignoreIcc = false, sequential, size, frames } = how;
  const input = isHeif(file) ? await asPng(file, limit) : file;
  const picture = sharp(input, {
    failOn: 'error',
    limitInputPixels: limit,
    ignoreIcc,
    ...(sequential !== undefined && { sequentialRead: sequential }),
    ...(frames && { page: frames.from, pages: frames.count }),
  });
  if (!frames) picture.autoOrient();
  // sharp brings 16 bits with a profile into Display P3, and leaves them there. In 8 bits it converts to sRGB.
  if (
    !ignoreIcc &&
    depth === 'uchar' &&
    (await sharp(input, { limitInputPixels: limit }).metadata()).space === 'rgb16'
  )
    picture.pipelineColourspace('srgb');
  if (size)
    picture.resize(size.width, size.height, { fit: size.fit, withoutEnlargement: size.fit === 'inside' });
  if (alpha === 'white') picture.flatten({ background: '#ffffff' });
  picture.toColourspace(space);
  if (alpha === 'remove') picture.removeAlpha();
  if (alpha === 'only') picture.extractChannel('alpha');
  const { data, info } = await picture.raw({ depth }).toBuffer({ resolveWithObject: true });
  const { width, height, channels } = info;
  send({ type: 'pixels', shape: { width, height, channels } }, data);
}

while (fill(HEAD)) {
  const text = Buffer.alloc(HEAD.readUInt32LE(0));
  const file = Buffer.allocUnsafeSlow(HEAD.readUInt32LE(4));
  if (!fill(text) || !fill(file)) break;
  const request = JSON.parse(text.toString()) as Request;
  try {
    if (request.type === 'look') send({ type: 'seen', look: await look(file) });
    else await decode(file, request);
  } catch (error) {
    send({ type: 'failed', message: error instanceof Error ? error.message : String(error) });
  }
}
