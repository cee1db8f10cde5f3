import { setPriority } from 'node:os';

/** Entry of the thread that analyses faces beside the pictures of a stream: what waits for it, waits; pictures do not. */

/** Of 0 to 19: on a core that both want, the pictures' thread has nine tenths. */
const NICENESS = 10;

// Linux has a niceness for each thread, and 0 is the thread that asks; elsewhere it would be the whole process's.
if (process.platform === 'linux') setPriority(0, NICENESS);
await import('../video-swap/swap-thread.ts');
