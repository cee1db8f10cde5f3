const HEADER_BYTES = 4;
const SAMPLE_BYTES = 2;

/**
 * One chunk of samples in memory that two threads share. A message would take 0.08 ms per round trip to carry them,
 * copied or transferred. One thread at a time owns the chunk; messages hand it over. Samples have 16 bits in the
 * byte order of this machine.
 */
export class SharedChunk {
  /** Memory from which the other thread creates its SharedChunk. */
  readonly memory: SharedArrayBuffer;
  readonly #count: Int32Array;
  readonly #bytes: Uint8Array;
  readonly #samples: Int16Array;

  /** @param memory memory of the other thread, or the number of samples to allocate */
  constructor(memory: SharedArrayBuffer | number) {
    this.memory =
      typeof memory === 'number' ? new SharedArrayBuffer(HEADER_BYTES + memory * SAMPLE_BYTES) : memory;
    this.#count = new Int32Array(this.memory, 0, 1);
    this.#bytes = new Uint8Array(this.memory, HEADER_BYTES);
    this.#samples = new Int16Array(this.memory, HEADER_BYTES);
  }

  /** The samples of the last `put`, in place. */
  get samples(): Int16Array {
    return this.#samples.subarray(0, this.#count[0]);
  }

  /** @throws RangeError when the samples do not fit */
  put(samples: Int16Array): void {
    this.#samples.set(samples);
    this.#count[0] = samples.length;
  }

  /**
   * Puts samples from any offset.
   * @param bytes whole samples
   */
  putBytes(bytes: Uint8Array): void {
    this.#bytes.set(bytes);
    this.#count[0] = bytes.length / SAMPLE_BYTES;
  }

  /** Returns a copy of the samples. */
  takeBytes(): Uint8Array {
    return this.#bytes.slice(0, (this.#count[0] as number) * SAMPLE_BYTES);
  }
}
