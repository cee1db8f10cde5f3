import { workerData } from 'node:worker_threads';
import { SwapThreads } from '../video-swap/swap-threads.ts';
import { LiveSwaps } from './live-swaps.ts';
import type { StreamThreadOptions } from './protocol.ts';
import { serveLiveThread } from './serve-live-thread.ts';
import { readSource } from './source-picture.ts';
import { warmUpBeside } from './warm-up.ts';

/** Entry file of a thread that warps the new face onto the faces of one stream at a time. */

const { settings } = workerData as StreamThreadOptions;
/** Analyses the light on faces while pictures pass. Kept from one stream to the next, because it is fast only after a while. */
const beside = new SwapThreads(1, new URL('./beside-thread.ts', import.meta.url));

serveLiveThread({
  async warmUp(portrait, { finder }) {
    await warmUpBeside(beside, await readSource(portrait, finder, settings));
  },
  async swapsFor(path, { finder }) {
    return new LiveSwaps(await readSource(path, finder, settings), beside, finder);
  },
});
