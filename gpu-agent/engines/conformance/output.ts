import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { open } from 'node:fs/promises';
import { promisify } from 'node:util';

/** First bytes of the types an output may have, in hexadecimal. */
const SIGNATURES: Readonly<Record<string, RegExp>> = {
  'image/png': /^89504e470d0a1a0a/,
  'image/jpeg': /^ffd8ff/,
  'image/webp': /^52494646.{8}57454250/,
  'video/mp4': /^.{8}66747970/,
  'video/webm': /^1a45dfa3/,
};

/** What a capability's output may be. */
export const OUTPUT_TYPES = {
  image: ['image/png', 'image/jpeg', 'image/webp'],
  second: ['video/mp4', 'video/webm'],
} as const;

/** That the file is what its content type says. */
export async function checkContent(path: string, contentType: string): Promise<void> {
  const file = await open(path);
  const { buffer, bytesRead } = await file.read(Buffer.alloc(64), 0, 64, 0);
  await file.close();
  const head = buffer.subarray(0, bytesRead).toString('hex');
  assert.match(head, SIGNATURES[contentType] ?? /$^/, `the output does not begin as ${contentType} does`);
}

/** Seconds of a video as ffprobe decodes it; undefined where there is no ffprobe. */
export async function decodedSeconds(path: string): Promise<number | undefined> {
  const args = ['-v', 'error', '-show_entries', 'format=duration', '-of', 'csv=p=0', path];
  try {
    const { stdout } = await promisify(execFile)('ffprobe', args, { timeout: 60_000 });
    return Number(stdout.trim());
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}
