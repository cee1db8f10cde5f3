import { threadEntry } from '@semblance/testkit/live/video/plain-thread';
import sharp from 'sharp';
import { beforeAll, describe, expect, it } from 'vitest';
import { ReaderThread, takeReaderThread } from './reader-thread.ts';

let picture: Buffer;
beforeAll(async () => {
  picture = await sharp('media/cat.jpg').resize(160, 120, { fit: 'cover' }).jpeg().toBuffer();
});

const url = (name: string) => new URL(name, import.meta.url).href;

describe('a thread that decodes pictures', () => {
  it('gives pixels, refuses a damaged picture, and goes on', async () => {
    const thread = takeReaderThread();
    const expected = new Uint8Array(await sharp(picture).raw().toBuffer());
    for (let i = 0; i < 2; i++) {
      const pixels = await thread.read(picture);
      expect(pixels).toMatchObject({ width: 160, height: 120, turned: false });
      expect(Buffer.compare(pixels.data, expected)).toBe(0);
      await expect(thread.read(picture.subarray(0, 900))).rejects.toMatchObject({
        name: 'LiveVideoError',
        code: 'bad_frame',
        message: 'The picture is damaged or cut off.',
      });
    }
    await thread.close();
  });

  it('is used again by the next stream, and by one at a time', async () => {
    const [one, other] = [takeReaderThread(), takeReaderThread()];
    const both = await Promise.all([one.read(picture), other.read(picture)]);
    expect(both.map(({ width }) => width)).toEqual([160, 160]);
    await one.close();
    const next = takeReaderThread();
    expect(await next.read(picture)).toMatchObject({ width: 160 });
    const first = next.read(picture);
    await expect(next.read(picture)).rejects.toThrow('two pictures at once');
    await first;
    await Promise.all([next.close(), other.close()]);
  });

  it('whose decoder never returns is given up, and nothing else is', async () => {
    const entry = threadEntry(`
      import { parentPort } from 'node:worker_threads';
      import { JpegDecoder } from '${url('./jpeg-decoder.ts')}';
      import { jpegIntruder } from '${url('../../testkit/live/video/jpeg-intruder.ts')}';
      import { PictureReader } from '${url('./picture-reader.ts')}';
      const module = jpegIntruder({ loops: true });
      const reader = new PictureReader(new JpegDecoder({ bytes: 1e6, pixels: 1e5, module }));
      parentPort.on('message', ({ picture }) => reader.read(picture));`);
    const thread = new ReaderThread({ entry, longestMs: 1_500 });
    await expect(thread.read(picture)).rejects.toMatchObject({
      code: 'engine_interrupted',
      message: 'a thread that decodes pictures did not answer within 1.5 s',
    });
    await expect(thread.read(picture)).rejects.toMatchObject({ code: 'engine_interrupted' });
    expect(await thread.close()).toBe(false);
  });

  it('that ends by itself fails its picture', async () => {
    const thread = new ReaderThread({ entry: threadEntry('setTimeout(() => process.exit(3), 50)') });
    await expect(thread.read(picture)).rejects.toMatchObject({
      code: 'engine_interrupted',
      message: 'a thread that decodes pictures ended (exit status 3)',
    });
  });
});
