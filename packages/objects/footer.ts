import type { FileHandle } from 'node:fs/promises';

/**
 * Metadata at the end of an object's file: JSON, its length (4 bytes, big endian) and a mark (4 bytes). Bytes and
 * metadata appear in one rename, so no crash can separate them.
 */
export interface Footer {
  readonly key: string;
  readonly contentType: string;
  /** Random, new with each write: the strong validator of HTTP. */
  readonly version: string;
  /** Unix time in milliseconds. */
  readonly storedAt: number;
}

const MARK = Buffer.from('SMB1');
const TAIL_BYTES = 8;
/** Fits the longest key and content type, so one read usually suffices. */
const READ_BYTES = 2048;

export class DamagedObjectError extends Error {
  override readonly name = 'DamagedObjectError';
  readonly code = 'damaged_object';
  readonly retryable = false;
}

export function encodeFooter(footer: Footer): Buffer {
  const json = Buffer.from(JSON.stringify(footer));
  const length = Buffer.alloc(4);
  length.writeUInt32BE(json.length);
  return Buffer.concat([json, length, MARK]);
}

/** @throws DamagedObjectError when the file does not end as a stored object does. */
export async function readFooter(
  handle: FileHandle,
): Promise<{ footer: Footer; sizeBytes: number; mtimeMs: number }> {
  const { size, mtimeMs } = await handle.stat();
  const tail = Buffer.alloc(Math.min(size, READ_BYTES));
  const { bytesRead } = await handle.read(tail, 0, tail.length, size - tail.length);
  if (bytesRead < TAIL_BYTES || !tail.subarray(-4).equals(MARK))
    throw new DamagedObjectError('an object in the store has no footer');
  const jsonBytes = tail.readUInt32BE(bytesRead - TAIL_BYTES);
  if (jsonBytes + TAIL_BYTES > bytesRead)
    throw new DamagedObjectError('the footer of a stored object is cut off');
  const json = tail.toString('utf8', bytesRead - TAIL_BYTES - jsonBytes, bytesRead - TAIL_BYTES);
  try {
    return { footer: JSON.parse(json) as Footer, sizeBytes: size - TAIL_BYTES - jsonBytes, mtimeMs };
  } catch (error) {
    throw new DamagedObjectError('the footer of a stored object is not JSON', { cause: error });
  }
}
