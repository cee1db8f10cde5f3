import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

/** The part of WebAssembly's types that is used here; Node's types lack them. */
declare namespace WebAssembly {
  class Module {
    constructor(bytes: Uint8Array);
  }
  class Instance {
    constructor(module: Module, imports: Readonly<Record<string, object>>);
    readonly exports: object;
  }
}

/** Pixels of a picture as it is stored: RGB, three bytes each. */
export interface StoredPixels {
  readonly width: number;
  readonly height: number;
  readonly data: Uint8Array<ArrayBuffer>;
  /** Whether the decoder found bytes that it passed over, or had none where it needed some. */
  readonly doubtful: boolean;
}

export interface JpegDecoderOptions {
  /** Largest file, in bytes, and largest picture, in pixels. */
  readonly bytes: number;
  readonly pixels: number;
  /** WebAssembly of the decoder, for tests. */
  readonly module?: WebAssembly.Module;
}

/** What the module exports: functions of TurboJPEG, and memory. */
interface Exports {
  readonly memory: { readonly buffer: ArrayBuffer };
  malloc(bytes: number): number;
  tjInitDecompress(): number;
  tjDecompressHeader3(handle: number, file: number, bytes: number, ...to: number[]): number;
  tjDecompress2(handle: number, file: number, bytes: number, ...how: number[]): number;
}

interface Running {
  readonly exports: Exports;
  readonly handle: number;
  readonly file: number;
  readonly out: number;
  readonly facts: number;
}

/**
 * Most memory of one decoder, in WebAssembly's pages of 64 KiB. The largest progressive picture takes a sixth of it.
 */
const MOST_PAGES = 1_024;
const RGB = 0;
const FACTS = 4;
const WORD = Uint32Array.BYTES_PER_ELEMENT;

const require = createRequire(import.meta.url);
let compiled: WebAssembly.Module | undefined;

/**
 * libjpeg-turbo in WebAssembly, for the pictures of one stream. What a picture does to it stays in a memory of its own,
 * and nothing outside can be called from there: see docs/adr/0074-walls-around-decoders.md.
 */
export class JpegDecoder {
  readonly #options: JpegDecoderOptions;
  #running: Running | undefined;

  constructor(options: JpegDecoderOptions) {
    this.#options = options;
  }

  /**
   * Decodes a picture of brightness and colours, or of brightness only.
   * @throws Error when it is damaged; RangeError when the file is too large
   */
  decode(picture: Uint8Array): StoredPixels {
    if (picture.length > this.#options.bytes) throw new RangeError(`a JPEG of ${picture.length} bytes`);
    this.#running ??= this.#start();
    try {
      return this.#decode(this.#running, picture);
    } catch (error) {
      // It was left in the middle of its work.
      this.#running = undefined;
      throw error;
    }
  }

  #start(): Running {
    compiled ??= compileDecoder();
    const { module = compiled, bytes, pixels } = this.#options;
    const exports = instantiate(module);
    const { malloc, tjInitDecompress } = exports;
    const running = {
      exports,
      handle: tjInitDecompress(),
      file: malloc(bytes),
      out: malloc(pixels * 3),
      facts: malloc(FACTS * WORD),
    };
    if (!running.handle || !running.file || !running.out || !running.facts)
      throw new Error('a decoder of JPEG got no memory');
    return running;
  }

  /** Of what the decoder answers, nothing is believed. */
  #decode({ exports, handle, file, out, facts }: Running, picture: Uint8Array): StoredPixels {
    const { memory, tjDecompressHeader3, tjDecompress2 } = exports;
    new Uint8Array(memory.buffer, file, picture.length).set(picture);
    const places = Array.from({ length: FACTS }, (_, fact) => facts + fact * WORD);
    if (tjDecompressHeader3(handle, file, picture.length, ...places) !== 0)
      throw new Error('the header of a JPEG is damaged');
    const [width = 0, height = 0] = new Uint32Array(memory.buffer, facts, FACTS);
    if (width < 1 || height < 1 || width * height > this.#options.pixels)
      throw new Error(`a JPEG of ${width} × ${height} pixels`);
    const doubtful = tjDecompress2(handle, file, picture.length, out, width, width * 3, height, RGB, 0) !== 0;
    const data = new Uint8Array(memory.buffer, out, width * height * 3).slice();
    return { width, height, data, doubtful };
  }
}

/** Returns the decoder as the package has it, with a limit of its memory, which it lacks. */
export function compileDecoder(): WebAssembly.Module {
  const path = require.resolve('@cwasm/jpeg-turbo/jpeg-turbo.wasm');
  return new WebAssembly.Module(withMostMemory(readFileSync(path), MOST_PAGES));
}

const cannot = (what: string) => () => {
  throw new Error(`the decoder of JPEG calls ${what}`);
};

/**
 * Starts the decoder with all that it can call. The library returns from an error by longjmp, whose place a throw takes;
 * the decoder is not used again then. It has no environment, no files and no output.
 */
function instantiate(module: WebAssembly.Module): Exports {
  const { exports } = new WebAssembly.Instance(module, {
    env: { setjmp: () => 0, longjmp: cannot('longjmp: the picture is damaged') },
    wasi_snapshot_preview1: {
      environ_sizes_get(count: number, bytes: number) {
        const memory = new DataView((exports as Exports).memory.buffer);
        memory.setUint32(count, 0, true);
        memory.setUint32(bytes, 0, true);
        return 0;
      },
      environ_get: cannot('environ_get'),
      proc_exit: cannot('proc_exit'),
      fd_close: cannot('fd_close'),
      fd_seek: cannot('fd_seek'),
      fd_write: cannot('fd_write'),
    },
  });
  return exports as Exports;
}

const HEADER_BYTES = 8;
const MEMORY_SECTION = 5;

/** Returns a module whose only memory may grow to so many pages (WebAssembly core specification, 5.5.8). */
export function withMostMemory(module: Uint8Array, pages: number): Uint8Array<ArrayBuffer> {
  for (let at = HEADER_BYTES; at < module.length; ) {
    const id = module[at];
    const [length, from] = readNumber(module, at + 1);
    const to = from + length;
    if (id === MEMORY_SECTION) {
      const [memories, limits] = readNumber(module, from);
      // After the kind of limits come the pages at the beginning, and the most where there are any.
      const [first] = readNumber(module, limits + 1);
      if (memories !== 1 || first > pages) throw new Error('the memory of a module cannot be limited');
      const section = [1, 1, ...numberBytes(first), ...numberBytes(pages)];
      const head = [MEMORY_SECTION, ...numberBytes(section.length)];
      return Uint8Array.from([...module.subarray(0, at), ...head, ...section, ...module.subarray(to)]);
    }
    at = to;
  }
  throw new Error('a module without memory of its own');
}

/** Reads a number in LEB128. @returns it, and where it ends */
function readNumber(bytes: Uint8Array, from: number): [number, number] {
  let value = 0;
  for (let at = from, shift = 0; ; at++, shift += 7) {
    const byte = bytes[at] ?? 0;
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return [value >>> 0, at + 1];
  }
}

function numberBytes(value: number): number[] {
  const bytes: number[] = [];
  for (let rest = value; ; rest >>>= 7) {
    if (rest < 0x80) return [...bytes, rest];
    bytes.push((rest & 0x7f) | 0x80);
  }
}
