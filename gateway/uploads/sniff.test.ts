import { randomBytes } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import sharp from 'sharp';
import { describe, expect, it } from 'vitest';
import { sniff } from './sniff.ts';

const bytes = (...parts: (string | number[])[]) =>
  Buffer.concat(
    parts.map((part) => (typeof part === 'string' ? Buffer.from(part, 'latin1') : Buffer.from(part))),
  );
const ftyp = (brand: string) => bytes([0, 0, 0, 24], 'ftyp', brand, [0, 0, 2, 0], 'isomiso2');
const ogg = (packet: string) => bytes('OggS', new Array(22).fill(0), [1, 19], packet, new Array(20).fill(0));
const ebml = (docType: string) =>
  bytes([0x1a, 0x45, 0xdf, 0xa3, 0x9f, 0x42, 0x86, 0x81, 1, 0x42, 0x82, 0x80 | docType.length], docType);
const packets = (size: number, first: number) => {
  const stream = Buffer.alloc(size * 4, 0xff);
  for (let i = 0; i < 4; i++) stream[first + i * size] = 0x47;
  return stream;
};

describe('sniff', () => {
  it.each([
    ['PNG', bytes('\x89PNG\r\n\x1a\n', [0, 0, 0, 13]), { image: 'image/png' }],
    ['JPEG', bytes([0xff, 0xd8, 0xff, 0xe0, 0, 16], 'JFIF'), { image: 'image/jpeg' }],
    ['WebP', bytes('RIFF', [1, 0, 0, 0], 'WEBPVP8 '), { image: 'image/webp' }],
    ['GIF', bytes('GIF89a', [1, 0, 1, 0]), { image: 'image/gif' }],
    ['HEIC', ftyp('heic'), { image: 'image/heic' }],
    ['AVIF', ftyp('avif'), { image: 'image/avif' }],
    ['WAV', bytes('RIFF', [1, 0, 0, 0], 'WAVEfmt '), { audio: 'audio/wav' }],
    ['RF64', bytes('RF64', [255, 255, 255, 255], 'WAVEds64'), { audio: 'audio/wav' }],
    ['AVI', bytes('RIFF', [1, 0, 0, 0], 'AVI LIST'), { video: 'video/x-msvideo' }],
    ['MP4', ftyp('isom'), { video: 'video/mp4', audio: 'audio/mp4' }],
    ['M4A', ftyp('M4A '), { audio: 'audio/mp4' }],
    ['MOV', ftyp('qt  '), { video: 'video/quicktime', audio: 'audio/mp4' }],
    ['old MOV', bytes([0, 0, 0, 8], 'wide', [0, 0, 1, 0], 'mdat'), { video: 'video/quicktime' }],
    ['3GP', ftyp('3gp5'), { video: 'video/3gpp', audio: 'audio/mp4' }],
    ['WebM', ebml('webm'), { video: 'video/webm', audio: 'audio/webm' }],
    ['Matroska', ebml('matroska'), { video: 'video/x-matroska', audio: 'audio/x-matroska' }],
    ['Opus', ogg('OpusHead'), { audio: 'audio/ogg' }],
    ['Vorbis', ogg('\x01vorbis'), { audio: 'audio/ogg' }],
    ['Theora', ogg('\x80theora'), { video: 'video/ogg' }],
    ['FLAC', bytes('fLaC', [0, 0, 0, 34]), { audio: 'audio/flac' }],
    ['AIFF', bytes('FORM', [0, 0, 0, 9], 'AIFFCOMM'), { audio: 'audio/aiff' }],
    ['AMR', bytes('#!AMR\n', [1, 2]), { audio: 'audio/amr' }],
    ['MP3 with tags', bytes('ID3', [4, 0, 0, 0, 0, 0, 0]), { audio: 'audio/mpeg' }],
    ['MP3', bytes([0xff, 0xfb, 0x90, 0x64]), { audio: 'audio/mpeg' }],
    ['AAC', bytes([0xff, 0xf1, 0x50, 0x80]), { audio: 'audio/aac' }],
    ['MPEG program', bytes([0, 0, 1, 0xba, 0x44]), { video: 'video/mpeg' }],
    ['MPEG transport', packets(188, 0), { video: 'video/mp2t' }],
    ['MPEG transport of a camera', packets(192, 4), { video: 'video/mp2t' }],
  ])('knows %s', (_name, head, expected) => {
    expect(sniff(head)).toEqual(expected);
  });

  it.each([
    ['nothing', Buffer.alloc(0)],
    ['one byte', bytes([0xff])],
    ['zeros', Buffer.alloc(1024)],
    ['text', bytes('Hello, this is only text. '.repeat(40))],
    ['HTML', bytes('<!doctype html><script>alert(1)</script>')],
    ['SVG', bytes('<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>')],
    ['BMP', bytes('BM', [70, 0, 0, 0])],
    ['TIFF', bytes('II*\0', [8, 0, 0, 0])],
    ['a HEIF file of VVC', ftyp('vvic')],
    ['JPEG 2000', ftyp('jp2 ')],
    ['a brand cut off', bytes([0, 0, 0, 24], 'ftypis')],
    ['PDF', bytes('%PDF-1.7')],
    ['ZIP', bytes('PK\x03\x04')],
    ['another RIFF', bytes('RIFF', [1, 0, 0, 0], 'ACON')],
    ['another EBML', ebml('other')],
    ['an MP3 header of reserved values', bytes([0xff, 0xff, 0xff, 0xff])],
  ])('takes %s for nothing it accepts', (_name, head) => {
    expect(sniff(head)).toBeUndefined();
  });

  it('knows what an encoder writes', async () => {
    const picture = sharp({ create: { width: 8, height: 8, channels: 3, background: 'red' } });
    expect(sniff(await picture.clone().jpeg().toBuffer())).toEqual({ image: 'image/jpeg' });
    expect(sniff(await picture.clone().png().toBuffer())).toEqual({ image: 'image/png' });
    expect(sniff(await picture.clone().webp().toBuffer())).toEqual({ image: 'image/webp' });
    expect(sniff(await picture.clone().avif().toBuffer())).toEqual({ image: 'image/avif' });
    expect(sniff(await picture.clone().tiff().toBuffer())).toBeUndefined();
  });

  it('knows the shipped portraits', () => {
    const pictures = readdirSync('media', { recursive: true, encoding: 'utf8' }).filter((name) =>
      /\.(jpe?g|png|webp|heic)$/.test(name),
    );
    expect(pictures.length).toBeGreaterThan(0);
    for (const name of pictures)
      expect(sniff(readFileSync(`media/${name}`).subarray(0, 1024)), name).toBeDefined();
  });

  it('never throws, and rarely takes noise for media', () => {
    let known = 0;
    for (let i = 0; i < 3000; i++) if (sniff(randomBytes(i % 1100))) known++;
    expect(known).toBeLessThan(15);
  });
});
