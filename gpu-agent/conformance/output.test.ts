/** @module-tag ffmpeg */
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { decodedSeconds } from './output.ts';

it('measures the picture of a video, as the agent does, and not the sound that goes on after it', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'semblance-conformance-output-'));
  try {
    const path = join(directory, 'out.mp4');
    const picture = ['-f', 'lavfi', '-i', 'testsrc=size=64x64:rate=24:duration=1.5'];
    const sound = ['-f', 'lavfi', '-i', 'sine=duration=2'];
    await promisify(execFile)('ffmpeg', ['-v', 'error', ...picture, ...sound, '-pix_fmt', 'yuv420p', path]);
    expect(await decodedSeconds(path)).toBe(1.5);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
});
