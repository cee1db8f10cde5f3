import type { FileHandle } from 'node:fs/promises';

/** A stretch of the new file: bytes of the old one, bytes made here, or the place that the manifest will take. */
export type Piece =
  | { readonly kind: 'range'; readonly start: number; readonly length: number }
  | { readonly kind: 'bytes'; readonly bytes: Uint8Array }
  | { readonly kind: 'manifest'; readonly length: number };

export interface Layout {
  readonly pieces: readonly Piece[];
  /** For files whose hash goes box by box: where each top-level box that is hashed begins in the new file. */
  readonly hashedBoxes?: readonly number[];
}

/**
 * One file, taken apart without holding it: a layout says how it looks with our metadata and a manifest in it.
 * Metadata and manifests that were there speak of another file, so they are left out. Pictures and sound are copied
 * byte by byte.
 */
export interface Container {
  /** States what binds a manifest to the file: a hash of all bytes but the manifest's, or of the boxes. */
  readonly binding: 'data' | 'boxes';
  /** @param manifestLength bytes of the manifest store; undefined: the file carries none */
  layout(xmp: Uint8Array, manifestLength: number | undefined): Layout;
  /** The manifest store as it stands in the file, with what the format wants around it: as long as the piece of it. */
  wrap(manifest: Uint8Array): Uint8Array;
}

/** The file is not what it is said to be, or in a form that cannot be marked without taking it apart. */
export class UnmarkableFileError extends Error {
  override readonly name = 'UnmarkableFileError';
  readonly code = 'unmarkable_file';
  readonly retryable = false;
}

export function lengthOf(piece: Piece): number {
  return piece.kind === 'bytes' ? piece.bytes.length : piece.length;
}

export function bytes(...parts: Uint8Array[]): Piece {
  return { kind: 'bytes', bytes: Buffer.concat(parts) };
}

export function range(start: number, length: number): Piece {
  return { kind: 'range', start, length };
}

export function uint32(value: number): Buffer {
  const buffer = Buffer.alloc(4);
  buffer.writeUInt32BE(value);
  return buffer;
}

/** Exactly these bytes of the file. @throws UnmarkableFileError when it ends before */
export async function readExactly(file: FileHandle, start: number, length: number): Promise<Buffer> {
  const buffer = Buffer.alloc(length);
  for (let done = 0; done < length; ) {
    const { bytesRead } = await file.read(buffer, done, length - done, start + done);
    if (bytesRead === 0) throw new UnmarkableFileError(`the file ends within ${length} bytes at ${start}`);
    done += bytesRead;
  }
  return buffer;
}
