import type { FileHandle } from 'node:fs/promises';
import { bytes, type Container, type Piece, range, readExactly, UnmarkableFileError } from './container.ts';

const HAS_XMP = 0x04;
const HAS_ALPHA = 0x10;

/**
 * Opens a WebP file. XMP and the manifest become the last two chunks; a simple file becomes an extended one for
 * that.
 */
export async function openWebp(file: FileHandle, size: number): Promise<Container> {
  const head = await readExactly(file, 0, 12);
  if (head.toString('latin1', 0, 4) !== 'RIFF' || head.toString('latin1', 8) !== 'WEBP') {
    throw new UnmarkableFileError('not a WebP file');
  }
  const end = 8 + head.readUInt32LE(4);
  if (end > size) throw new UnmarkableFileError('the WebP file is shorter than it says');
  let extended: Buffer | undefined;
  const kept: Piece[] = [];
  for (let at = 12; at < end; ) {
    const header = await readExactly(file, at, 8);
    const type = header.toString('latin1', 0, 4);
    const length = 8 + padded(header.readUInt32LE(4));
    if (at + length > end) throw new UnmarkableFileError(`the WebP chunk ${type} ends beyond the file`);
    if (type === 'VP8X') extended = await readExactly(file, at + 8, 10);
    else {
      if (kept.length === 0) extended ??= await described(file, at, type);
      if (type !== 'XMP ' && type !== 'C2PA') kept.push(range(at, length));
    }
    at += length;
  }
  if (!extended || kept.length === 0) throw new UnmarkableFileError('a WebP file without a picture');
  const features = Buffer.from(extended);
  features[0] = (features[0] ?? 0) | HAS_XMP;

  return {
    binding: 'data',
    layout(xmp, manifestLength) {
      const chunks: Piece[] = [bytes(chunk('VP8X', features)), ...kept, bytes(chunk('XMP ', xmp))];
      if (manifestLength !== undefined) chunks.push({ kind: 'manifest', length: 8 + padded(manifestLength) });
      const length = chunks.reduce(
        (sum, piece) => sum + (piece.kind === 'bytes' ? piece.bytes.length : piece.length),
        4,
      );
      const riff = Buffer.from(head);
      riff.writeUInt32LE(length, 4);
      return { pieces: [bytes(riff), ...chunks] };
    },
    wrap: (manifest) => chunk('C2PA', manifest),
  };
}

/** Returns the extended header of a simple file: its size and whether it is transparent. */
async function described(file: FileHandle, at: number, type: string): Promise<Buffer> {
  const data = await readExactly(file, at + 8, 10);
  const header = Buffer.alloc(10);
  if (type === 'VP8 ' && data.readUIntLE(3, 3) === 0x2a019d) {
    header.writeUIntLE((data.readUInt16LE(6) & 0x3fff) - 1, 4, 3);
    header.writeUIntLE((data.readUInt16LE(8) & 0x3fff) - 1, 7, 3);
  } else if (type === 'VP8L' && data[0] === 0x2f) {
    const bits = data.readUInt32LE(1);
    header.writeUIntLE(bits & 0x3fff, 4, 3);
    header.writeUIntLE((bits >>> 14) & 0x3fff, 7, 3);
    if ((bits >>> 28) & 1) header[0] = HAS_ALPHA;
  } else throw new UnmarkableFileError(`a WebP file that begins with ${type}`);
  return header;
}

function padded(length: number): number {
  return length + (length % 2);
}

function chunk(type: string, data: Uint8Array): Buffer {
  const buffer = Buffer.alloc(8 + padded(data.length));
  buffer.write(type, 'latin1');
  buffer.writeUInt32LE(data.length, 4);
  buffer.set(data, 8);
  return buffer;
}
