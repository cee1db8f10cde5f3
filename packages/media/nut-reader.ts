import { ByteReader } from './byte-reader.ts';
import { FLAG, NUT_ID, STARTCODES } from './nut.ts';

interface FrameCode {
  readonly flags: number;
  readonly ptsDelta: number;
  readonly sizeMul: number;
  readonly sizeLsb: number;
  readonly reserved: number;
}

interface Stream {
  readonly codes: readonly FrameCode[];
  readonly timeBase: { readonly num: number; readonly den: number };
  ptsShift: number;
}

export interface NutFrame {
  /** Presentation time, in microseconds. */
  readonly ptsUs: number;
  readonly data: Uint8Array;
}

/** The data in the pipe is no NUT stream, or its frames have an unexpected size. */
export class NutError extends Error {
  override readonly name = 'NutError';
}

/**
 * Yields the frames of a NUT stream with one video stream of raw pictures, as ffmpeg writes it to a pipe. A
 * truncated last frame is dropped.
 * @param frameBytes expected size of every frame
 * @param room memory for a frame
 * @throws NutError
 */
export async function* readNut(
  chunks: AsyncIterable<Uint8Array>,
  frameBytes: number,
  room: (bytes: number) => Uint8Array = (bytes) => new Uint8Array(bytes),
): AsyncGenerator<NutFrame> {
  const reader = new ByteReader(chunks);
  const id = new Uint8Array(NUT_ID.length);
  if (!(await reader.fill(id))) return;
  if (!NUT_ID.equals(id)) throw new NutError('the stream does not begin as NUT does');
  let stream: Stream | undefined;
  let lastPts = 0;
  for (;;) {
    const code = await reader.byte();
    if (code === undefined) return;
    if (code === 0x4e) {
      const header = await readPacket(reader);
      if (!header) return;
      // ffmpeg repeats its headers with the same content.
      if (header.startcode === STARTCODES.main) stream ??= parseMainHeader(header.content);
      else if (header.startcode === STARTCODES.stream && stream) parseStreamHeader(header.content, stream);
      else if (header.startcode === STARTCODES.syncpoint && stream) {
        lastPts = syncTime(header.content);
      }
      continue;
    }
    const frameCode = stream?.codes[code];
    if (!stream || !frameCode || frameCode.flags & FLAG.invalid) throw new NutError(`frame code ${code}`);
    const head = await readFrameHead(reader, frameCode, stream, lastPts);
    if (!head) return;
    if (head.size !== frameBytes) throw new NutError(`a frame of ${head.size} bytes, not ${frameBytes}`);
    const data = room(frameBytes);
    if (!(await reader.fill(data))) return;
    lastPts = head.pts;
    yield { ptsUs: Math.round((head.pts * stream.timeBase.num * 1e6) / stream.timeBase.den), data };
  }
}

async function readPacket(reader: ByteReader): Promise<{ startcode: bigint; content: Fields } | undefined> {
  const rest = Buffer.alloc(7);
  if (!(await reader.fill(rest))) return undefined;
  const startcode = (0x4en << 56n) | (BigInt(rest.readUIntBE(0, 3)) << 32n) | BigInt(rest.readUInt32BE(3));
  if (!Object.values<bigint>(STARTCODES).includes(startcode)) throw new NutError('an unknown start code');
  const length = await readVarint(reader);
  if (length === undefined) return undefined;
  if (length > 1 << 20) throw new NutError(`a header of ${length} bytes`);
  if (length > 4096 && !(await reader.skip(4))) return undefined;
  const content = new Uint8Array(length);
  return (await reader.fill(content)) ? { startcode, content: new Fields(content) } : undefined;
}

async function readVarint(reader: ByteReader): Promise<number | undefined> {
  let value = 0;
  for (;;) {
    const byte = await reader.byte();
    if (byte === undefined) return undefined;
    value = value * 128 + (byte & 127);
    if (!(byte & 128)) return value;
    if (value > Number.MAX_SAFE_INTEGER / 128) throw new NutError('a number beyond 53 bits');
  }
}

/** @returns undefined at the end of the stream */
async function readFrameHead(
  reader: ByteReader,
  code: FrameCode,
  stream: Stream,
  lastPts: number,
): Promise<{ pts: number; size: number } | undefined> {
  let ended = false;
  const number = async () => {
    const value = await readVarint(reader);
    if (value === undefined) ended = true;
    return value ?? 0;
  };
  let { flags } = code;
  if (flags & FLAG.coded) flags ^= await number();
  if (flags & FLAG.streamId && (await number()) !== 0) throw new NutError('a second stream');
  let pts = lastPts + code.ptsDelta;
  if (flags & FLAG.codedPts) pts = fullTime(await number(), stream.ptsShift, lastPts);
  let size = code.sizeLsb;
  if (flags & FLAG.sizeMsb) size += code.sizeMul * (await number());
  if (flags & FLAG.matchTime) await number();
  if (flags & FLAG.headerIndex && (await number()) !== 0) throw new NutError('an elided header');
  let reserved = code.reserved;
  if (flags & FLAG.reserved) reserved = await number();
  while (!ended && reserved-- > 0) await number();
  if (flags & FLAG.sideData) throw new NutError('side data');
  if (flags & FLAG.checksum && !(await reader.skip(4))) return undefined;
  return ended ? undefined : { pts, size };
}

/** Returns a time from its short form (its lowest bits, nearest to the last one) or its long one. */
function fullTime(coded: number, shift: number, last: number): number {
  const span = 2 ** shift;
  if (coded >= span) return coded - span;
  const low = last - Math.floor(span / 2);
  return low + ((((coded - low) % span) + span) % span);
}

class Fields {
  private readonly bytes: Uint8Array;
  private at = 0;

  constructor(bytes: Uint8Array) {
    this.bytes = bytes;
  }

  v(): number {
    let value = 0;
    for (;;) {
      const byte = this.bytes[this.at++];
      if (byte === undefined) throw new NutError('a header that is too short');
      value = value * 128 + (byte & 127);
      if (!(byte & 128)) return value;
    }
  }

  s(): number {
    const value = this.v() + 1;
    return value & 1 ? -Math.floor(value / 2) : Math.floor(value / 2);
  }

  skip(count: number): void {
    this.at += count;
  }
}

function parseMainHeader(fields: Fields): Stream {
  const version = fields.v();
  if (version > 3) fields.v();
  if (fields.v() !== 1) throw new NutError('not exactly one stream');
  fields.v();
  if (fields.v() !== 1) throw new NutError('not exactly one time base');
  const timeBase = { num: fields.v(), den: fields.v() };
  const codes: FrameCode[] = [];
  let ptsDelta = 0;
  let sizeMul = 1;
  while (codes.length < 256) {
    const flags = fields.v();
    const count = fields.v();
    if (count > 0) ptsDelta = fields.s();
    if (count > 1) sizeMul = fields.v();
    if (count > 2) fields.v();
    const sizeLsb = count > 3 ? fields.v() : 0;
    const reserved = count > 4 ? fields.v() : 0;
    let repeat = count > 5 ? fields.v() : sizeMul - sizeLsb;
    if (count > 6) fields.s();
    for (let field = 7; field < count; field++) fields.v();
    if (repeat <= 0) throw new NutError('an empty run of frame codes');
    for (let step = 0; repeat > 0 && codes.length < 256; ) {
      // The letter N begins a start code, so it cannot be a frame code and is not counted.
      if (codes.length === 0x4e) codes.push({ flags: FLAG.invalid, ptsDelta, sizeMul, sizeLsb, reserved });
      else {
        codes.push({ flags, ptsDelta, sizeMul, sizeLsb: sizeLsb + step++, reserved });
        repeat--;
      }
    }
  }
  return { codes, timeBase, ptsShift: 0 };
}

function parseStreamHeader(fields: Fields, stream: Stream): void {
  fields.v();
  if (fields.v() !== 0) throw new NutError('a stream that is not video');
  fields.skip(fields.v());
  fields.v();
  stream.ptsShift = fields.v();
}

/** There is one time base, so the time of a syncpoint contains no index. */
function syncTime(fields: Fields): number {
  return fields.v();
}
