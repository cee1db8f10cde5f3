import assert from 'node:assert/strict';
import { open } from 'node:fs/promises';
import { createMedia, findMediaTools } from '@semblance/media/media';

/** First bytes of the possible output types, in hexadecimal. */
const SIGNATURES: Readonly<Record<string, RegExp>> = {
  'image/png': /^89504e470d0a1a0a/,
  'image/jpeg': /^ffd8ff/,
  'image/webp': /^52494646.{8}57454250/,
  'video/mp4': /^.{8}66747970/,
  'video/webm': /^1a45dfa3/,
};

/** Possible output types of a capability. */
export const OUTPUT_TYPES = {
  image: ['image/png', 'image/jpeg', 'image/webp'],
  second: ['video/mp4', 'video/webm'],
} as const;

/** Checks that the content of the file matches its content type. */
export async function checkContent(path: string, contentType: string): Promise<void> {
  const file = await open(path);
  const { buffer, bytesRead } = await file.read(Buffer.alloc(64), 0, 64, 0);
  await file.close();
  const head = buffer.subarray(0, bytesRead).toString('hex');
  assert.match(head, SIGNATURES[contentType] ?? /$^/, `the output does not begin as ${contentType} does`);
}

/**
 * Returns the length of a video's picture, decoded as the agent does for the charge; undefined without media tools.
 */
export async function decodedSeconds(path: string): Promise<number | undefined> {
  const tools = await findMediaTools();
  if (!tools.available) return undefined;
  const media = createMedia({ tools });
  try {
    return (await media.measure(path, AbortSignal.timeout(60_000))).durationMs / 1000;
  } finally {
    await media.close();
  }
}
