/**
 * The part of the NUT container (https://ffmpeg.org/~michael/nut.txt) that carries one stream of raw pictures
 * between ffmpeg and this process. It keeps the time of every frame, which a bare rawvideo pipe loses.
 */

export const NUT_ID = Buffer.from('nut/multimedia container\0', 'latin1');
export const STARTCODES = {
  main: 0x4e4d7a561f5f04adn,
  stream: 0x4e5311405bf2f9dbn,
  syncpoint: 0x4e4be4adeeca4569n,
  index: 0x4e58dd672f23e64en,
  info: 0x4e49ab68b596ba78n,
} as const;
export const FLAG = {
  key: 1,
  codedPts: 8,
  streamId: 16,
  sizeMsb: 32,
  checksum: 64,
  reserved: 128,
  sideData: 256,
  headerIndex: 1024,
  matchTime: 2048,
  coded: 4096,
  invalid: 8192,
} as const;

const TABLE = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte << 24;
  for (let bit = 0; bit < 8; bit++) crc = crc & 0x80000000 ? (crc << 1) ^ 0x04c11db7 : crc << 1;
  return crc >>> 0;
});

/** Returns CRC-32 with generator 0x04C11DB7, most significant bit first, start value 0 and no final inversion. */
export function crc32Of(bytes: Uint8Array): number {
  let crc = 0;
  for (const byte of bytes) crc = ((crc << 8) ^ (TABLE[(crc >>> 24) ^ byte] as number)) >>> 0;
  return crc;
}

/** Encodes NUT's `v`: seven bits per byte, most significant first; the top bit says that more follow. */
function varint(value: number): number[] {
  const bytes = [value % 128];
  for (let rest = Math.floor(value / 128); rest > 0; rest = Math.floor(rest / 128))
    bytes.unshift(128 + (rest % 128));
  return bytes;
}

const withChecksum = (bytes: readonly number[]): Buffer => {
  const out = Buffer.alloc(bytes.length + 4);
  out.set(bytes);
  out.writeUInt32BE(crc32Of(out.subarray(0, bytes.length)), bytes.length);
  return out;
};

/** Returns a header packet of at most 4096 bytes. */
function packet(startcode: bigint, content: readonly number[]): Buffer {
  const body = withChecksum(content);
  const code = Buffer.alloc(8);
  code.writeBigUInt64BE(startcode);
  return Buffer.concat([code, Buffer.from(varint(body.length)), body]);
}

/** Returns the start of a stream of yuv420p pictures with times in microseconds. */
export function nutHeader(width: number, height: number): Buffer {
  const oneCode = (flags: number, count: number) => [...varint(flags), 6, 0, 1, 0, 0, 0, ...varint(count)];
  const main = [
    ...[3, 1, ...varint(65536)],
    ...[1, 1, ...varint(1_000_000)],
    ...oneCode(FLAG.invalid, 1),
    // Frame code 1 is the only one in use, and writes out every field.
    ...oneCode(FLAG.key | FLAG.codedPts | FLAG.sizeMsb | FLAG.checksum, 1),
    ...oneCode(FLAG.invalid, 253),
    // There are no elided frame headers; ffmpeg requires this statement.
    0,
  ];
  const stream = [
    ...[0, 0, 4, ...Buffer.from('I420', 'latin1')],
    // The fields are time base, shift of the short form of times (0: never short), largest distance, delay, flags,
    // no extra data.
    ...[0, 0, ...varint(1_000_000), 0, 0, 0],
    ...[...varint(width), ...varint(height), 1, 1, 0],
  ];
  return Buffer.concat([NUT_ID, packet(STARTCODES.main, main), packet(STARTCODES.stream, stream)]);
}

/** Returns the bytes before the pixels of a frame. */
export function nutFrameHeader(ptsUs: number, size: number): Buffer {
  // ffmpeg reads no frame that is further from a syncpoint than the largest distance, so each frame has its own.
  const syncpoint = packet(STARTCODES.syncpoint, [...varint(ptsUs), 0]);
  // With a shift of 0 the long form of a time is the time plus one.
  return Buffer.concat([syncpoint, withChecksum([1, ...varint(ptsUs + 1), ...varint(size)])]);
}
