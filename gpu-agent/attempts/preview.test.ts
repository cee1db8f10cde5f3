import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { silentLogger } from '@semblance/common/logging';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { beginPreview, type PreviewStore, previewOf } from './preview.ts';

let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'preview-'));
});
afterAll(() => rm(dir, { recursive: true, force: true }));

const NEVER = new AbortController().signal;

async function picture(name: string, width: number, height: number, format: 'png' | 'jpeg' | 'webp' = 'png') {
  const path = join(dir, name);
  const background = { r: 200, g: 40, b: 40, alpha: format === 'jpeg' ? 1 : 0.5 };
  await writeFile(
    path,
    await sharp({ create: { width, height, channels: 4, background } })
      .toFormat(format)
      .toBuffer(),
  );
  return path;
}

describe('a preview of a picture', () => {
  it.each([
    ['wide', 1_000, 500, 'png', 320, 160],
    ['tall', 500, 1_000, 'webp', 160, 320],
    ['small', 64, 32, 'jpeg', 64, 32],
    ['one pixel wide', 1, 900, 'png', 1, 320],
  ] as const)('that is %s keeps its shape, within 320 pixels', async (name, width, height, format, w, h) => {
    const jpeg = await previewOf(
      await picture(name, width, height, format),
      `image/${format}`,
      undefined,
      NEVER,
    );
    expect(await sharp(jpeg).metadata()).toMatchObject({ format: 'jpeg', width: w, height: h });
  });

  it('shows what is transparent over white, and grey as grey', async () => {
    const half = await previewOf(await picture('half', 40, 40), 'image/png', undefined, NEVER);
    const [red = 0, green = 0] = await sharp(half).raw().toBuffer();
    expect(Math.abs(red - 228)).toBeLessThan(6);
    expect(Math.abs(green - 148)).toBeLessThan(6);
    const path = join(dir, 'grey.png');
    await writeFile(
      path,
      await sharp(await picture('base', 30, 30))
        .greyscale()
        .png()
        .toBuffer(),
    );
    expect((await sharp(await previewOf(path, 'image/png', undefined, NEVER)).metadata()).width).toBe(30);
  });

  it.each<[string, Buffer]>([
    ['empty', Buffer.alloc(0)],
    ['noise', Buffer.alloc(5_000, 0x5a)],
  ])('of a file that is %s is none', async (name, bytes) => {
    const path = join(dir, name);
    await writeFile(path, bytes);
    await expect(previewOf(path, 'image/png', undefined, NEVER)).rejects.toMatchObject({
      code: 'unsupported_format',
    });
  });
});

it('a preview that cannot be made, marked or stored is said and fails nothing', async () => {
  const lines: string[] = [];
  const logger = Object.assign(silentLogger(), { warn: (_: unknown, line: string) => void lines.push(line) });
  const out = await mkdtemp(join(dir, 'out-'));
  const sink = { contentType: 'image/jpeg', url: 'http://127.0.0.1:9/x', headers: {}, key: 'out/x' };
  const store = { sink, logger } as unknown as PreviewStore['store'];
  const tryIt = async (path: string, mark: () => Promise<string>) => {
    const begun = beginPreview({
      ...{ path, contentType: 'image/png', dir: out, media: undefined, logger, signal: NEVER },
    });
    await begun.read;
    await begun.store({
      ...{ provenance: { mark }, store },
      mark: { capability: 'face-swap-image', engine: { name: '', version: '' }, inputs: {} },
    });
    await begun.end();
  };
  const good = await picture('good', 10, 10);
  await tryIt(join(dir, 'missing.png'), async () => '');
  await tryIt(good, async () => Promise.reject(new Error('no signer')));
  expect(lines).toEqual([
    expect.stringMatching(/^no preview of the output: /),
    'no preview of the output: no signer',
  ]);
  // What cannot be marked is not stored under another name either.
  expect(await readdir(out)).toEqual(['preview.jpg']);
  expect((await readFile(join(out, 'preview.jpg'))).length).toBeGreaterThan(0);
});

it('a preview that is not wanted any more ends, is not stored, and says nothing', async () => {
  const lines: string[] = [];
  const logger = Object.assign(silentLogger(), { warn: (_: unknown, line: string) => void lines.push(line) });
  const out = await mkdtemp(join(dir, 'out-'));
  const path = await picture('large', 3_000, 2_000);
  const begun = beginPreview({
    ...{ path, contentType: 'image/png', dir: out, media: undefined, logger, signal: NEVER },
  });
  await begun.end();
  expect([lines, await readdir(out)]).toEqual([[], []]);
});
