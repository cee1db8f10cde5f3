import { setTimeout as delay } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const gc = runInNewContext('gc') as () => void;

/** Returns the bytes in use, including buffers, after a garbage collection. */
export async function bytesInUse(): Promise<number> {
  // Objects that ended in this turn are released in the next, and buffer memory is returned after a collection.
  for (let round = 0; round < 3; round++) {
    await delay(20);
    gc();
  }
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
