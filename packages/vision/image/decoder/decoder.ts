import { createRequire } from 'node:module';
import { join, sep } from 'node:path';
import { createGuard, type Guard } from '@semblance/common/process/guard';
import { EngineInterruptedError, RenderError } from '@semblance/engine-api/engine';
import { ByteReader } from '@semblance/media/byte-reader';
import { interrupted } from '@semblance/media/failure';
import { findIsolation, type Isolation } from '@semblance/media/isolation';
import { startProgram, type Tool } from '@semblance/media/sandbox';
import type { Answer, DecodeRequest, PictureLook, Request, Shape } from './protocol.ts';

export interface Pixels extends Shape {
  /** One byte for each sample, or two in the order of this machine. */
  readonly data: Uint8Array;
}

export interface DecoderOptions {
  /** Seconds of processor time for all its pictures. */
  readonly cpuSec: number;
  readonly memoryMib: number;
  /** Entry file of the process, for tests. */
  readonly main?: string;
}

/** For the pictures of one render, of which the largest has 200 megapixels. */
const RENDER: DecoderOptions = { cpuSec: 120, memoryMib: 3_072 };
/** Longest time without an answer, in ms; the limit of processor time comes before, except on an overloaded machine. */
const LONGEST_MS = 300_000;
/** Longest text of an answer: one with a colour profile. */
const MAX_TEXT = 64 << 20;

/** Two lengths. */
const HEAD_BYTES = 8;
const MAIN = join(import.meta.dirname, 'decoder-main.ts');
const require = createRequire(import.meta.url);
const sharpFile = require.resolve('sharp');
const modules = sharpFile.slice(0, sharpFile.lastIndexOf(join(sep, 'sharp', sep)));
/** What the process is made of, beside Node.js. */
const READ = [
  join(import.meta.dirname, '../../package.json'),
  join(import.meta.dirname, '../container.ts'),
  ...['heif.ts', 'heif-to-png.ts'].map((name) => join(import.meta.dirname, name)),
  ...['sharp', '@img', 'detect-libc', 'semver', 'libheif-js'].map((name) => join(modules, name)),
];
/** OpenSSL would end Node.js where its configuration cannot be read. */
const FLAGS = ['--openssl-config=/dev/null'];
const NEVER = new AbortController().signal;

let isolation: Promise<Isolation> | undefined;
/** Ends the processes of this thread if it dies; it has no end of its own and keeps nothing alive. */
let guard: Guard | undefined;

/** Returns the walls of this machine, which are looked for once. */
async function walls(): Promise<Isolation> {
  isolation ??= findIsolation();
  try {
    return await isolation;
  } catch (error) {
    isolation = undefined;
    throw error;
  }
}

/** A process that decodes pictures, one after the other, behind the walls of this machine. */
export class PictureDecoder {
  readonly #tool: Tool;
  readonly #reader: ByteReader;
  #last: Promise<unknown> = Promise.resolve();
  #isOver = false;

  private constructor(tool: Tool) {
    this.#tool = tool;
    this.#reader = new ByteReader(tool.stdout);
  }

  /** @throws EngineInterruptedError when this machine lacks the processes or files for it */
  static async start({ cpuSec, memoryMib, main = MAIN }: DecoderOptions = RENDER): Promise<PictureDecoder> {
    guard ??= createGuard({ graceMs: 200 });
    const tool = await startProgram({
      file: process.execPath,
      args: [...FLAGS, main],
      isolation: await walls(),
      guard,
      read: [main, ...READ],
      feed: true,
      limits: { cpuSec, memoryMib, fileMib: 1, reserves: true },
      signal: NEVER,
    });
    return new PictureDecoder(tool);
  }

  get pid(): number {
    return this.#tool.pid;
  }

  /** Whether it can decode no more: it ended, or answered what is not believed. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Returns properties of a picture without decoding it. @throws as {@link decode} */
  async look(file: Uint8Array): Promise<PictureLook> {
    const { answer } = await this.#ask({ type: 'look' }, file);
    if (answer.type !== 'seen') throw new Error('a decoder of pictures answered something else');
    const { width, height, pages, delays, space, depth, hasAlpha, icc, fault } = answer.look;
    for (const side of [width, height, pages])
      if (!Number.isInteger(side) || side < 1) throw new Error(`a picture with a side of ${side}`);
    const seen = {
      width,
      height,
      pages,
      space: String(space),
      depth: String(depth),
      hasAlpha: hasAlpha === true,
    };
    return {
      ...seen,
      ...(Array.isArray(delays) && { delays: delays.slice(0, pages).map(Number) }),
      ...(icc !== undefined && { icc: String(icc) }),
      ...(fault !== undefined && { fault: String(fault).slice(0, 200) }),
    };
  }

  /**
   * @throws EngineInterruptedError when the process was killed from outside; RenderError `input_too_large` when it took
   * too long; Error for a picture that cannot be decoded
   */
  async decode(file: Uint8Array, how: Omit<DecodeRequest, 'type'>): Promise<Pixels> {
    const { answer, pixels } = await this.#ask({ type: 'decode', ...how }, file);
    if (answer.type !== 'pixels') throw new Error('a decoder of pictures answered something else');
    return { ...answer.shape, data: pixels };
  }

  /** Ends the process, whatever it does. */
  async close(): Promise<void> {
    this.#tool.kill();
    await this.#tool.exited;
    this.#tool.stdout.destroy();
  }

  #ask(request: Request, file: Uint8Array): Promise<{ answer: Answer; pixels: Uint8Array }> {
    const asked = this.#last.then(() => this.#askNow(request, file));
    this.#last = asked.catch(() => undefined);
    return asked;
  }

  async #askNow(request: Request, file: Uint8Array) {
    const timer = setTimeout(() => this.#tool.kill(), LONGEST_MS);
    try {
      const text = Buffer.from(JSON.stringify(request));
      const head = Buffer.alloc(HEAD_BYTES);
      head.writeUInt32LE(text.length, 0);
      head.writeUInt32LE(file.length, 4);
      this.#tool.stdin?.write(Buffer.concat([head, text]));
      this.#tool.stdin?.write(file);
      const answered = await this.#read(request).catch((error: unknown) => {
        // What it sends next would be taken for another answer.
        this.#isOver = true;
        this.#tool.kill();
        throw error;
      });
      if (!answered) {
        this.#isOver = true;
        throw await this.#death();
      }
      if (answered.answer.type === 'failed') throw new Error(String(answered.answer.message).slice(0, 2_000));
      return answered;
    } finally {
      clearTimeout(timer);
    }
  }

  /** Reads an answer, of which nothing is believed; undefined when the process ended. */
  async #read(request: Request): Promise<{ answer: Answer; pixels: Uint8Array } | undefined> {
    const head = Buffer.alloc(HEAD_BYTES);
    if (!(await this.#reader.fill(head))) return undefined;
    const [textBytes, pixelBytes] = [head.readUInt32LE(0), head.readUInt32LE(4)];
    if (textBytes > MAX_TEXT) throw new Error(`an answer of ${textBytes} bytes`);
    const text = Buffer.alloc(textBytes);
    if (!(await this.#reader.fill(text))) return undefined;
    const answer = JSON.parse(text.toString()) as Answer;
    if (pixelBytes !== expectedBytes(request, answer))
      throw new Error(`an answer of ${pixelBytes} bytes of pixels`);
    // Memory of its own, aligned for 16 bits.
    const pixels = new Uint8Array(pixelBytes);
    return (await this.#reader.fill(pixels)) ? { answer, pixels } : undefined;
  }

  async #death(): Promise<Error> {
    const end = setTimeout(() => this.#tool.kill(), 1_000);
    const exit = await this.#tool.exited;
    clearTimeout(end);
    const fault = interrupted(exit, 'the decoder of pictures');
    if (fault) return fault;
    if (exit.ended === 'killed') return new EngineInterruptedError('the decoder of pictures did not answer');
    if (exit.ended === 'cpu')
      return new RenderError('input_too_large', 'The picture takes too long to decode.');
    return new Error(`the decoder of pictures ended: ${exit.code ?? exit.signal}: ${exit.stderr.trim()}`);
  }
}

function expectedBytes(request: Request, answer: Answer): number {
  if (request.type !== 'decode' || answer.type !== 'pixels') return 0;
  const { width, height, channels } = answer.shape;
  const sides = [width, height, channels].every((side) => Number.isInteger(side) && side > 0);
  if (!sides || width * height > request.limit || channels > 4)
    throw new Error(`a picture of ${width} × ${height} × ${channels}`);
  return width * height * channels * (request.depth === 'ushort' ? 2 : 1);
}
