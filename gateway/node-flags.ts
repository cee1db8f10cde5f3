/**
 * Node's flags for the gateway, in the local stack, the image and the chart; NODE_OPTIONS may not name all of them. Its
 * heap is 20 MB, and V8 collects all of it for every 15 to 25 MiB of buffers that uploads leave: 20 to 33 times for 500
 * MiB, half of the CPU that they cost it outside the kernel. With these flags never: buffers count towards the limit of
 * the whole heap, which begins at 128 MB, and the young generation, whose collections free them for next to nothing, is
 * small enough for 24 of those in 500 MiB.
 */
export const GATEWAY_FLAGS = [
  '--initial-old-space-size=128',
  '--external-memory-accounted-in-global-limit',
  '--max-semi-space-size=4',
] as const;
