import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { findMediaTools } from './tools.ts';

const NEW = 'ffmpeg version 5.1.9\nlibavutil      57. 28.100 / 57. 28.100';
const NIGHTLY = 'ffmpeg version N-118000-gabcdef\nlibavutil      61.  1.100 / 61.  1.100';
const OLD = 'ffmpeg version 5.0.3\nlibavutil      57. 17.100 / 57. 17.100';
const OLD_NIGHTLY = 'ffmpeg version N-47683-g0e8eb07980-static\nlibavutil      56. 24.101 / 56. 24.101';

let bin: string;
beforeAll(async () => {
  bin = await mkdtemp(join(tmpdir(), 'semblance-tools-'));
  vi.stubEnv('PATH', bin);
});
afterAll(() => rm(bin, { recursive: true, force: true }));

/** Puts programs on the path of this test that state these versions. */
async function place(ffmpeg: string, ffprobe: string, encoders = ' V..... libx264 x\n A..... aac x') {
  for (const [name, said] of Object.entries({ ffmpeg: `${ffmpeg}\n${encoders}`, ffprobe }))
    await writeFile(join(bin, name), `#!/bin/sh\necho '${said}'\n`, { mode: 0o755 });
}

it.each([
  [NEW, '5.1.9'],
  [NIGHTLY, 'N-118000-gabcdef'],
])('takes a build of the oldest version or a later one', async (said, version) => {
  await place(said, said);
  expect(await findMediaTools()).toMatchObject({ available: true, version });
});

it.each([
  ['ffmpeg', OLD, NEW, '5.0.3'],
  ['ffmpeg', OLD_NIGHTLY, NEW, 'N-47683-g0e8eb07980-static'],
  ['ffprobe', NIGHTLY, OLD, '5.0.3'],
])('takes no old %s', async (name, ffmpeg, ffprobe, version) => {
  await place(ffmpeg, ffprobe);
  expect(await findMediaTools()).toEqual({
    available: false,
    reason: `${join(bin, name)} is version ${version}; 5.1 or later is needed`,
  });
});

it('takes no ffmpeg without H.264', async () => {
  await place(NEW, NEW, ' A..... aac x');
  expect(await findMediaTools()).toMatchObject({
    reason: expect.stringContaining('without the encoder libx264'),
  });
});
