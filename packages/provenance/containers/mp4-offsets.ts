import { UnmarkableFileError } from './container.ts';

/** Boxes on the path from the index to its chunk tables. */
const PATH = new Set(['moov', 'trak', 'mdia', 'minf', 'stbl']);

/**
 * Returns a copy of the index (moov box) in which every chunk position is moved.
 * @param move returns the new position in the file for an old one
 */
export function shiftChunks(moov: Buffer, move: (place: number) => number): Buffer {
  const shifted = Buffer.from(moov);
  shiftWithin(shifted, 0, shifted.length, move);
  return shifted;
}

function shiftWithin(buffer: Buffer, from: number, to: number, move: (place: number) => number): void {
  for (let at = from; at + 8 <= to; ) {
    const type = buffer.toString('latin1', at + 4, at + 8);
    const short = buffer.readUInt32BE(at);
    const header = short === 1 ? 16 : 8;
    const length = short === 1 && at + 16 <= to ? Number(buffer.readBigUInt64BE(at + 8)) : short || to - at;
    if (length < header || at + length > to) throw new UnmarkableFileError(`the MP4 box ${type} is damaged`);
    const content = at + header;
    const end = at + length;
    if (PATH.has(type)) shiftWithin(buffer, content, end, move);
    if (type === 'stco' || type === 'co64') shiftTable(buffer, content, end, type === 'co64', move);
    // A table of its own gives the position of auxiliary (encryption) data; no file that we produce has it.
    if (type === 'saio') throw new UnmarkableFileError('an MP4 file with auxiliary data');
    at = end;
  }
}

function shiftTable(
  buffer: Buffer,
  content: number,
  end: number,
  long: boolean,
  move: (place: number) => number,
): void {
  const width = long ? 8 : 4;
  // Version and flags, then the number of entries.
  const count = content + 8 <= end ? buffer.readUInt32BE(content + 4) : -1;
  const first = content + 8;
  if (count < 0 || first + count * width > end)
    throw new UnmarkableFileError('an MP4 table of chunks is damaged');
  for (let entry = 0; entry < count; entry++) {
    const at = first + entry * width;
    const place = move(long ? Number(buffer.readBigUInt64BE(at)) : buffer.readUInt32BE(at));
    if (long) buffer.writeBigUInt64BE(BigInt(place), at);
    else if (place <= 0xffff_ffff) buffer.writeUInt32BE(place, at);
    else throw new UnmarkableFileError('an MP4 file whose table of chunks is too narrow for its size');
  }
}
