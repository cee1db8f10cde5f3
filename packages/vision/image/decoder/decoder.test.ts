import { existsSync } from 'node:fs';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findIsolation } from '@semblance/media/isolation';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { readBase, readFace } from '../picture-file.ts';
import { withDecoder, withOneDecoder } from './attempt-decoder.ts';
import { PictureDecoder } from './decoder.ts';

let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'semblance-decoder-'));
});
afterAll(() => rm(dir, { recursive: true, force: true }));

const HOW = { limit: 1e6, space: 'srgb', depth: 'uchar', alpha: 'remove' } as const;
const pidOf = () => withDecoder(async ({ pid }) => pid);
const alive = (pid: number) => existsSync(`/proc/${pid}/cmdline`) || process.platform !== 'linux';
/** Noise, in which any wrong byte shows. */
const noise = (bytes: number) => Uint8Array.from({ length: bytes }, (_, i) => (i * i * 31 + i * 7) >> 3);

/** Starts a decoder that runs this code for each request; `answer(text, pixels)` answers. */
async function inItsPlace(code: string): Promise<PictureDecoder> {
  const main = join(dir, `${Math.random()}.mjs`);
  await writeFile(
    main,
    `import { readSync, writeSync } from 'node:fs';
    const answer = (value, pixels = 0) => {
      const text = Buffer.from(JSON.stringify(value));
      const head = Buffer.alloc(8);
      head.writeUInt32LE(text.length, 0);
      head.writeUInt32LE(pixels, 4);
      writeSync(1, Buffer.concat([head, text, Buffer.alloc(pixels)]));
    };
    readSync(0, Buffer.alloc(8));
    ${code}`,
  );
  return PictureDecoder.start({ cpuSec: 20, memoryMib: 1_024, main });
}

describe('a decoded picture', () => {
  it('is to the bit what the library gives', async () => {
    const deep = new Uint16Array(noise(2 * 30 * 20 * 3).buffer);
    const path = join(dir, 'deep.png');
    await sharp(deep, { raw: { width: 30, height: 20, channels: 3 } })
      .toColourspace('rgb16')
      .png()
      .toFile(path);
    const { picture, format, lossless } = await readBase(path);
    expect({ format, lossless, ...picture, data: undefined }).toEqual({
      ...{ format: 'png', lossless: true, width: 30, height: 20, channels: 3, data: undefined },
    });
    expect(picture.data).toEqual(deep);
  });

  it('is upright, and its profile is kept', async () => {
    const path = join(dir, 'turned.jpg');
    await sharp(noise(40 * 20 * 3), { raw: { width: 40, height: 20, channels: 3 } })
      .withIccProfile('p3')
      .withMetadata({ orientation: 6 })
      .jpeg()
      .toFile(path);
    const { picture, profile } = await readBase(path);
    expect([picture.width, picture.height]).toEqual([20, 40]);
    expect(profile).toEqual((await sharp(path).metadata()).icc);
    expect(await readFace(path)).toMatchObject({ width: 20, height: 40, channels: 3 });
  });

  it('may be larger than what is left of a process with a file for it', async () => {
    const path = join(dir, 'large.png');
    await sharp({ create: { width: 6_000, height: 6_000, channels: 3, background: '#123456' } })
      .png()
      .toFile(path);
    const { data } = await readFace(path);
    expect([data.length, data[0], data.at(-1)]).toEqual([108_000_000, 0x12, 0x56]);
  });
});

describe('the process of an attempt', () => {
  it('serves all its pictures, also at once, and ends with it', async () => {
    const pids = await withOneDecoder(() => Promise.all([pidOf(), pidOf(), pidOf().then(pidOf)]));
    expect(new Set(pids).size).toBe(1);
    expect(alive(pids[0] as number)).toBe(false);
  });

  it('that starts early is the one that is used, and ends also when none was needed', async () => {
    const start = vi.spyOn(PictureDecoder, 'start');
    try {
      const used = await withOneDecoder(async () => [await pidOf(), await pidOf()], { early: true });
      expect(new Set(used).size).toBe(1);
      await withOneDecoder(async () => undefined, { early: true });
      const pids = await Promise.all(start.mock.results.map(async ({ value }) => (await value).pid));
      expect(pids).toEqual([used[0], expect.any(Number)]);
      if (process.platform === 'linux') expect(pids.filter(alive)).toEqual([]);
    } finally {
      start.mockRestore();
    }
  });

  it('is no other attempt’s', async () => {
    const [one, other] = await Promise.all([withOneDecoder(pidOf), withOneDecoder(pidOf)]);
    expect(one).not.toBe(other);
    expect(await pidOf()).not.toBe(await pidOf());
  });

  it('ends when the attempt fails', async () => {
    let pid = 0;
    const failing = withOneDecoder(async () => {
      pid = await pidOf();
      throw new Error('no face');
    });
    await expect(failing).rejects.toThrow('no face');
    expect(alive(pid)).toBe(false);
  });

  it('goes on after a damaged picture', async () => {
    await withDecoder(async (decoder) => {
      const picture = await sharp({ create: { width: 8, height: 8, channels: 3, background: '#fff' } })
        .png()
        .toBuffer();
      for (const damaged of [Buffer.alloc(0), noise(1_000), picture.subarray(0, -20), picture.subarray(9)])
        await expect(decoder.decode(damaged, HOW)).rejects.toThrow();
      await expect(decoder.decode(picture, { ...HOW, limit: 63 })).rejects.toThrow('exceeds pixel limit');
      expect(await decoder.decode(picture, HOW)).toMatchObject({ width: 8, height: 8, channels: 3 });
    });
  });

  it('that is killed from outside fails nothing but its attempt, which may be tried again', async () => {
    await withDecoder(async (decoder) => {
      process.kill(decoder.pid, 'SIGKILL');
      await expect(decoder.decode(noise(10), HOW)).rejects.toMatchObject({ code: 'engine_interrupted' });
      await expect(decoder.decode(noise(10), HOW)).rejects.toMatchObject({ code: 'engine_interrupted' });
    });
  });

  it('that crashes blames its picture', async () => {
    const decoder = await inItsPlace(`process.kill(process.pid, 'SIGSEGV')`);
    await expect(decoder.look(noise(10))).rejects.toThrow('the decoder of pictures ended: SIGSEGV');
    await decoder.close();
  });

  it.each([
    ['more pixels than fit', `answer({ type: 'pixels', shape: { width: 2, height: 2, channels: 3 } }, 13)`],
    ['fewer pixels', `answer({ type: 'pixels', shape: { width: 2, height: 2, channels: 3 } }, 11)`],
    [
      'a picture over the limit',
      `answer({ type: 'pixels', shape: { width: 1e6, height: 1e6, channels: 3 } }, 3)`,
    ],
    ['no size', `answer({ type: 'pixels', shape: { width: -2, height: -2, channels: 3 } }, 12)`],
    ['properties in place of pixels', `answer({ type: 'seen', look: {} })`],
    ['nonsense', `writeSync(1, Buffer.from('{}{}{}{}{}{}{}{}'))`],
  ])('is not believed when it answers %s', async (_what, code) => {
    const decoder = await inItsPlace(code);
    await expect(decoder.decode(noise(10), HOW)).rejects.toThrow();
    await decoder.close();
    expect(alive(decoder.pid)).toBe(false);
  });
});

const { missing } = await findIsolation();

describe.skipIf(missing.length > 0)('code in the place of a decoder of pictures', () => {
  it('reads no file, connects nowhere, and starts nothing', async () => {
    const secret = join(dir, 'secret');
    await writeFile(secret, 'secret');
    const decoder = await inItsPlace(`
      const { readFileSync, readdirSync, writeFileSync } = await import('node:fs');
      const { spawnSync } = await import('node:child_process');
      const { connect } = await import('node:net');
      const code = (act) => { try { act(); return 'reached'; } catch (error) { return error.code; } };
      const found = [
        code(() => readFileSync(${JSON.stringify(secret)})),
        code(() => readFileSync('/proc/${process.pid}/environ')),
        code(() => readdirSync(${JSON.stringify(dir)})),
        code(() => writeFileSync(${JSON.stringify(join(dir, 'new'))}, '')),
        code(() => process.kill(${process.pid}, 0)),
        spawnSync('/bin/true').error?.code ?? 'reached',
        await new Promise((resolve) => {
          connect(9, '127.0.0.1').on('error', (error) => resolve(error.code)).on('connect', () => resolve('reached'));
        }),
        Object.keys(process.env).sort().join(),
      ];
      answer({ type: 'failed', message: found.join(' ') });`);
    await expect(decoder.look(noise(10))).rejects.toThrow(
      'EACCES EACCES EACCES EACCES EPERM EPERM EPERM AV_LOG_FORCE_NOCOLOR,LC_ALL',
    );
    await decoder.close();
  });
});
