/**
 * Memory for the many short-lived fields of one swap. Taking each from the system costs more than filling it: fresh
 * pages are cleared by the kernel, and the garbage collector runs for memory outside its heap. One thread swaps one
 * face at a time, without a pause, so one block serves all of them.
 */
const BLOCK_BYTES = 24 * 1024 * 1024;

let block: ArrayBuffer | undefined;
let used = 0;
let depth = 0;

/**
 * Runs `work`, within which {@link floats} come from the shared block; at its end they are taken back, so none of them
 * may be part of what it returns. May be nested. `work` must not be asynchronous.
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

/** Zeros: from the shared block within {@link withScratch} as far as it reaches, else the caller's own. */
export function floats(length: number): Float32Array {
  const bytes = length * 4;
  if (depth === 0 || used + bytes > BLOCK_BYTES) return new Float32Array(length);
  block ??= new ArrayBuffer(BLOCK_BYTES);
  const out = new Float32Array(block, used, length);
  used += (bytes + 63) & ~63;
  return out.fill(0);
}
