import { NODE_FLAGS } from '@semblance/common/node-flags';

/**
 * Node flags of the gateway, in the local stack, the image and the chart; NODE_OPTIONS does not allow all of them.
 * By default V8 collects the whole heap of 20 MB for every 15 to 25 MiB of upload buffers, 20 to 33 times for 500
 * MiB, which is half of the CPU outside the kernel. With these flags it never does: buffers count towards the limit
 * of the whole heap, which begins at 128 MB, and the young generation, whose collections free them at almost no
 * cost, is small enough for 24 of those in 500 MiB.
 */
export const GATEWAY_FLAGS = [
  ...NODE_FLAGS,
  '--initial-old-space-size=128',
  '--external-memory-accounted-in-global-limit',
  '--max-semi-space-size=4',
] as const;
