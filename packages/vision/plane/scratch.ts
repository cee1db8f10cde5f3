/**
 * Size in bytes of the shared block for the short-lived fields of one swap. A new allocation costs more than
 * filling it: the kernel clears fresh pages, and external memory triggers garbage collection. A thread swaps one
 * face at a time without a pause, so one block serves all swaps.
 */
const BLOCK_BYTES = 24 * 1024 * 1024;

let block: ArrayBuffer | undefined;
let used = 0;
let depth = 0;

/**
 * Runs `work` with {@link floats} from the shared block and releases them at its end, so `work` must not return any
 * of them. Calls may be nested. `work` must not be asynchronous.
 */
export function withScratch<T>(work: () => T): T {
  const mark = used;
  depth++;
  try {
    return work();
  } finally {
    depth--;
    used = mark;
  }
}

/** Returns zeros: from the shared block within {@link withScratch} while it has room, otherwise newly allocated. */
export function floats(length: number): Float32Array {
  return fromBlock(length)?.fill(0) ?? new Float32Array(length);
}

/** Does the same without making them zero, for callers that write each value. */
export function unset(length: number): Float32Array {
  return fromBlock(length) ?? new Float32Array(length);
}

function fromBlock(length: number): Float32Array | undefined {
  const bytes = length * 4;
  if (depth === 0 || used + bytes > BLOCK_BYTES) return undefined;
  block ??= new ArrayBuffer(BLOCK_BYTES);
  const out = new Float32Array(block, used, length);
  used += (bytes + 63) & ~63;
  return out;
}
