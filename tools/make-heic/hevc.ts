import { execFileSync } from 'node:child_process';
import type { Coded } from './heif-file.ts';

/** Pixels to be coded: RGB, or one grey channel; 8 bits each. */
export interface Raw {
  readonly width: number;
  readonly height: number;
  readonly channels: 1 | 3;
  readonly data: Uint8Array;
}

const VPS = 32;
const PPS = 34;
/** Larger numbers are of messages that a decoder does not need. */
const SLICES_BELOW = 32;

/** Codes one picture with ffmpeg and x265, which a machine that makes the files must have. Full range, BT.601. */
export function codeHevc({ width, height, channels, data }: Raw, depth: 8 | 10): Coded {
  const format = channels === 1 ? 'gray' : 'rgb24';
  const coded = `yuv420p${depth === 10 ? '10le' : ''}`;
  const range = 'range=full:colorprim=smpte432:transfer=iec61966-2-1:colormatrix=smpte170m';
  const stream = execFileSync(
    'ffmpeg',
    [
      ...['-hide_banner', '-loglevel', 'error', '-f', 'rawvideo', '-pix_fmt', format],
      ...['-video_size', `${width}x${height}`, '-i', 'pipe:0'],
      ...['-vf', `scale=out_range=pc:out_color_matrix=smpte170m:flags=accurate_rnd+full_chroma_int`],
      ...['-pix_fmt', coded, '-frames:v', '1', '-c:v', 'libx265', '-preset', 'slow', '-crf', '16'],
      ...['-x265-params', `log-level=error:keyint=1:info=0:aud=0:hrd=0:${range}`, '-f', 'hevc', 'pipe:1'],
    ],
    { input: data, maxBuffer: 64 << 20 },
  );
  const units = unitsOf(stream);
  const sets = units.filter(({ type }) => type >= VPS && type <= PPS);
  const slices = units.filter(({ type }) => type < SLICES_BELOW);
  return {
    width,
    height,
    depth,
    hvcC: configuration(sets, depth),
    data: Buffer.concat(slices.map(withLength)),
  };
}

interface Unit {
  readonly type: number;
  readonly bytes: Buffer;
}

/** Splits a byte stream (ITU-T H.265, annex B) at its start codes. */
function unitsOf(stream: Buffer): Unit[] {
  const units: Unit[] = [];
  for (let at = stream.indexOf('\0\0\x01', 0, 'latin1'); at >= 0; ) {
    const next = stream.indexOf('\0\0\x01', at + 3, 'latin1');
    let end = next < 0 ? stream.length : next;
    while (stream[end - 1] === 0) end--;
    const bytes = stream.subarray(at + 3, end);
    units.push({ type: ((bytes[0] as number) >> 1) & 63, bytes });
    at = next;
  }
  return units;
}

function withLength({ bytes }: Unit): Buffer {
  const length = Buffer.alloc(4);
  length.writeUInt32BE(bytes.length);
  return Buffer.concat([length, bytes]);
}

/** Returns the box `hvcC` (ISO/IEC 14496-15, 8.3.2.1). */
function configuration(sets: readonly Unit[], depth: 8 | 10): Buffer {
  const sps = sets.find(({ type }) => type === 33);
  if (!sps) throw new Error('the encoder wrote no sequence parameter set');
  // Profile, tier and level are 12 bytes, after the header of the unit and one byte; escapes are taken out.
  const plain = Buffer.from(sps.bytes.toString('latin1').replaceAll('\0\0\x03', '\0\0'), 'latin1');
  const more = depth - 8;
  const body = [
    Buffer.from([1, ...plain.subarray(3, 15)]),
    Buffer.from([0xf0, 0, 0xfc, 0xfc | 1, 0xf8 | more, 0xf8 | more, 0, 0, 0b00001111, sets.length]),
    ...sets.map(({ type, bytes }) =>
      Buffer.concat([Buffer.from([0x80 | type, 0, 1, bytes.length >> 8, bytes.length & 255]), bytes]),
    ),
  ];
  const content = Buffer.concat(body);
  const head = Buffer.alloc(8, 'xxxxhvcC');
  head.writeUInt32BE(content.length + 8);
  return Buffer.concat([head, content]);
}
