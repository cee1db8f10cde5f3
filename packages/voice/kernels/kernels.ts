import { readFileSync } from 'node:fs';

/** The part of WebAssembly's types that is used here; Node's types lack them. */
declare namespace WebAssembly {
  class Module {
    constructor(bytes: Uint8Array);
  }
  class Instance {
    constructor(module: Module);
    readonly exports: object;
  }
}

/** Exports of `assembly/kernels.ts`; pointers are byte offsets into its memory. */
interface Exports {
  readonly memory: { readonly buffer: ArrayBuffer; grow(pages: number): number };
  readonly heapBase: { readonly value: number };
  dots(rows: number, vectors: number, width: number, count: number, out: number): void;
  filter(input: number, kernel: number, taps: number, out: number, count: number, step: number): void;
  likeness(
    samples: number,
    length: number,
    energy: number,
    window: number,
    first: number,
    last: number,
    out: number,
  ): void;
  grain(
    data: number,
    mask: number,
    table: number,
    rises: number,
    steps: number,
    out: number,
    first: number,
    count: number,
    at: number,
    mark: number,
    speed: number,
    rise: number,
    end: number,
    fall: number,
    gain: number,
  ): void;
}

const ALIGNMENT = 16;
const PAGE_BYTES = 65_536;
/** Number of rows that `dots` multiplies with each vector. */
export const ROWS = 8;
const module = compile();

/** The inner loops of one converter, with memory of its own that is freed with the converter. */
export class Kernels {
  readonly run: Omit<Exports, 'memory' | 'heapBase'>;
  readonly #memory: ArrayBuffer;
  #free: number;

  /** @param extraBytes memory beyond what the streams of a converter need */
  constructor(extraBytes = 0) {
    const { memory, heapBase, ...run } = new WebAssembly.Instance(module).exports as unknown as Exports;
    this.run = run;
    if (extraBytes > 0) memory.grow(Math.ceil(extraBytes / PAGE_BYTES));
    this.#memory = memory.buffer;
    this.#free = heapBase.value;
  }

  /**
   * Allocates samples in that memory, all 0. Their `byteOffset` is the pointer. @throws RangeError when the memory
   * is full
   */
  floats(count: number): Float32Array {
    return new Float32Array(this.#memory, this.#take(4 * count), count);
  }

  /** Copies samples into that memory. */
  floatsOf(samples: ArrayLike<number>): Float32Array {
    const there = this.floats(samples.length);
    there.set(samples);
    return there;
  }

  /** Like {@link floats}, with 64 bits per value. */
  doubles(count: number): Float64Array {
    return new Float64Array(this.#memory, this.#take(8 * count), count);
  }

  #take(bytes: number): number {
    const at = ALIGNMENT * Math.ceil(this.#free / ALIGNMENT);
    this.#free = at + bytes;
    return at;
  }
}

function compile(): WebAssembly.Module {
  const file = new URL('./gen/kernels.wasm', import.meta.url);
  try {
    return new WebAssembly.Module(readFileSync(file));
  } catch (error) {
    throw new Error(`${file.pathname} cannot be used; \`npm run generate\` makes it`, { cause: error });
  }
}
