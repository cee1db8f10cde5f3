import { readdir, readFile, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { crc32, deflateSync } from 'node:zlib';
import { ADMIRAL, ASTRONAUT, useSwapRig } from '@semblance/testkit/engine-builtin/swap-rig';
import sharp from 'sharp';
import { describe, expect, it } from 'vitest';

const rig = useSwapRig();
const { swap, file, outputDir } = rig;

it('a full disk is a fault of the moment, and the picture not to blame', async () => {
  const dir = await outputDir();
  await symlink('/dev/full', join(dir, 'output.jpg.part'));
  const render = rig.engine.render({
    capability: 'face-swap-image',
    inputs: { image: ADMIRAL, face: ASTRONAUT },
    parameters: {},
    outputDir: dir,
    signal: new AbortController().signal,
    onProgress: () => undefined,
  });
  await expect(render).rejects.toMatchObject({
    name: 'EngineInterruptedError',
    message: 'the machine of the engine lacks something (ENOSPC, write)',
  });
});

describe('refusals', () => {
  const blank = (): Promise<Buffer> =>
    sharp({ create: { width: 640, height: 480, channels: 3, background: '#48a' } })
      .png()
      .toBuffer();

  it('says in which of the two pictures no face was found', async () => {
    const image = await file('blank.png', blank());
    await expect(swap(image, ASTRONAUT)).rejects.toMatchObject({
      code: 'face_not_detected',
      message: expect.stringMatching(/base image/),
    });
    await expect(swap(ASTRONAUT, image)).rejects.toMatchObject({
      code: 'face_not_detected',
      message: expect.stringMatching(/face picture/),
    });
  });

  it('takes no animal for a face, in the base or in the face picture', async () => {
    const cat = join(import.meta.dirname, '..', '..', '..', 'media', 'cat.jpg');
    await expect(swap(cat, ASTRONAUT)).rejects.toMatchObject({
      code: 'face_not_detected',
      message: expect.stringMatching(/base image/),
    });
    await expect(swap(ASTRONAUT, cat)).rejects.toMatchObject({
      code: 'face_not_detected',
      message: expect.stringMatching(/face picture/),
    });
  });

  /** Paints over the nose and the lower lids of the astronaut. */
  const covered = () => {
    const input = { create: { width: 103, height: 48, channels: 3, background: '#3b6ea5' } } as const;
    return sharp(ASTRONAUT)
      .composite([{ input, left: 174, top: 97 }])
      .png()
      .toBuffer();
  };

  it('tells that a face is hidden, in the base or in the face picture', async () => {
    const hidden = await file('hidden.png', covered());
    const hint = (input: string) => ({ code: 'face_covered', message: expect.any(String), input });
    await expect(swap(hidden, ADMIRAL)).rejects.toMatchObject({
      code: 'face_not_detected',
      findings: {
        faces: { found: 1, changed: 0, left: [{ reason: 'covered', count: 1 }] },
        hints: [{ code: 'glasses', input: 'face' }, hint('image')],
      },
    });
    await expect(swap(ADMIRAL, hidden)).rejects.toMatchObject({
      code: 'face_not_detected',
      findings: { hints: [hint('face')] },
    });
  });

  it('refuses what is not a whole picture of a format that is read', async () => {
    const jpeg = await readFile(ADMIRAL);
    const png = await readFile(ASTRONAUT);
    const webp = await sharp(ADMIRAL).webp().toBuffer();
    const bad: [string, Buffer][] = [
      ['empty.jpg', Buffer.alloc(0)],
      ['one-byte.jpg', Buffer.from([0xff])],
      ['garbage.png', Buffer.from('not a picture at all, whatever the name says'.repeat(40))],
      ['head-only.jpg', jpeg.subarray(0, 40)],
      ['cut.jpg', jpeg.subarray(0, jpeg.length / 2)],
      ['cut.png', png.subarray(0, png.length / 2)],
      ['cut.webp', webp.subarray(0, webp.length / 2)],
      [
        'scratched.png',
        Buffer.concat([png.subarray(0, 30_000), Buffer.alloc(5000, 7), png.subarray(35_000)]),
      ],
      ['vector.svg', Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>')],
      ['cut.gif', (await sharp(ADMIRAL).gif().toBuffer()).subarray(0, 20_000)],
      ['picture.tiff', await sharp(ADMIRAL).tiff().toBuffer()],
    ];
    for (const [name, bytes] of bad) {
      const path = await file(name, bytes);
      await expect(swap(path, ASTRONAUT), name).rejects.toMatchObject({ code: 'unsupported_format' });
      await expect(swap(ADMIRAL, path), name).rejects.toMatchObject({ code: 'unsupported_format' });
    }
  });

  it('refuses an animation as the base', async () => {
    const frames = await Promise.all(
      [ADMIRAL, ASTRONAUT].map((path) => sharp(path).resize(300, 300).png().toBuffer()),
    );
    const animated = await sharp(frames, { join: { animated: true } })
      .webp({ loop: 0 })
      .toBuffer();
    const path = await file('moving.webp', animated);
    await expect(swap(path, ASTRONAUT)).rejects.toMatchObject({
      code: 'unsupported_format',
      message: expect.stringMatching(/animated/),
    });
  });

  it('refuses pictures above 40 megapixels without decoding them', async () => {
    // A PNG header that states 900 megapixels, without any pixels behind it.
    const chunk = (type: string, body: Buffer): Buffer => {
      const named = Buffer.concat([Buffer.from(type, 'latin1'), body]);
      const frame = Buffer.alloc(8);
      frame.writeUInt32BE(body.length, 0);
      frame.writeUInt32BE(crc32(named), 4);
      return Buffer.concat([frame.subarray(0, 4), named, frame.subarray(4)]);
    };
    const header = Buffer.from([0, 0, 0x75, 0x30, 0, 0, 0x75, 0x30, 8, 2, 0, 0, 0]);
    const bomb = Buffer.concat([
      Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'),
      chunk('IHDR', header),
      chunk('IDAT', deflateSync(Buffer.alloc(1000))),
      chunk('IEND', Buffer.alloc(0)),
    ]);
    const path = await file('bomb.png', bomb);
    // Decoding it would take 2.7 GB.
    const start = process.memoryUsage().rss;
    await expect(swap(path, ASTRONAUT)).rejects.toMatchObject({ code: 'input_too_large' });
    await expect(swap(ADMIRAL, path)).rejects.toMatchObject({ code: 'input_too_large' });
    expect(process.memoryUsage().rss - start).toBeLessThan(1e9);
  });
});

describe('interruption', () => {
  it('ends a cancelled render within a second and leaves nothing behind', async () => {
    const image = await file(
      'large.png',
      sharp(ADMIRAL).resize(3000, 3516).png({ compressionLevel: 1 }).toBuffer(),
    );
    // Takes the best of several runs, because a busy machine slows each of them.
    let quickest = Number.POSITIVE_INFINITY;
    for (let left = 3; left > 0 && quickest >= 1000; left--) {
      const abort = new AbortController();
      const out = await outputDir();
      let stage = '';
      const render = rig.engine.render({
        capability: 'face-swap-image',
        inputs: { image, face: ASTRONAUT },
        parameters: {},
        outputDir: out,
        signal: abort.signal,
        onProgress: (_, name) => {
          stage = name;
          if (name === 'encode') setTimeout(() => abort.abort(new Error('owner changed his mind')), 20);
        },
      });
      let aborted = 0;
      abort.signal.addEventListener('abort', () => {
        aborted = performance.now();
      });
      await expect(render).rejects.toThrow('owner changed his mind');
      quickest = Math.min(quickest, performance.now() - aborted);
      expect(stage).toBe('encode');
      expect(await readdir(out)).toEqual([]);
    }
    expect(quickest).toBeLessThan(1000);
    expect((await swap(ADMIRAL, ASTRONAUT)).details.faces).toBe(1);
  });

  it('does not begin what was cancelled before', async () => {
    await expect(swap(ADMIRAL, ASTRONAUT, AbortSignal.abort(new Error('too late')))).rejects.toThrow(
      'too late',
    );
  });

  it('tells progress that only grows and ends at 1', async () => {
    const seen: number[] = [];
    await rig.engine.render({
      capability: 'face-swap-image',
      inputs: { image: ADMIRAL, face: ASTRONAUT },
      parameters: {},
      outputDir: await outputDir(),
      signal: new AbortController().signal,
      onProgress: (fraction) => seen.push(fraction),
    });
    expect(seen).toEqual([...seen].sort((a, b) => a - b));
    expect(seen.at(-1)).toBe(1);
    expect(seen.length).toBeGreaterThan(4);
  });
});
