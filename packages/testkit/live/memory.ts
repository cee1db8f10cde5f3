import { setTimeout as delay } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');
const gc = runInNewContext('gc') as () => void;

/** Bytes in use, buffers included, once what nothing refers to is gone. */
export async function bytesInUse(): Promise<number> {
  // What ended in this turn is let go of in the next, and the memory of buffers is given back after a collection.
  for (let round = 0; round < 3; round++) {
    await delay(20);
    gc();
  }
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
