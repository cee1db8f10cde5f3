import { setPriority } from 'node:os';

/**
 * Entry file of the thread that analyses faces beside the pictures of a stream, so that pictures do not wait for
 * it.
 */

/** Niceness of 0 to 19: on a shared core the picture thread gets nine tenths. */
const NICENESS = 10;

// On Linux each thread has a niceness, and 0 means the calling thread. Elsewhere it would apply to the whole
// process.
if (process.platform === 'linux') setPriority(0, NICENESS);
await import('../video-swap/swap-thread.ts');
