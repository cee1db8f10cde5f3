import { BLOCK_MS, RvcConverter } from './rvc-converter.ts';
import type { RunModel, RvcModels } from './rvc-models.ts';
import { SOURCE_RATE } from './source-pitch.ts';

/** Blocks before the timed ones, in which memory is allocated and kernels are chosen for this context. */
const FIRST_BLOCKS = 3;
const TIMED_BLOCKS = 5;
/** Share of a device's time that streams may take. The rest is for uneven runs and for renders on the same device. */
const LOAD = 0.7;

/**
 * Returns how long the models of a voice are busy with one block, in ms: the median of some blocks of a tone. What a
 * stream does beside them is not counted, because threads do it in parallel.
 * @param now a clock in ms
 */
export async function blockTime(
  models: RvcModels,
  run: RunModel,
  contextMs: number,
  now: () => number = () => performance.now(),
): Promise<number> {
  let [running, since, busy] = [0, 0, 0];
  const timed: RunModel = async (name, feeds) => {
    if (running++ === 0) since = now();
    try {
      return await run(name, feeds);
    } finally {
      if (--running === 0) busy += now() - since;
    }
  };
  const times: number[] = [];
  for await (const i of blocks(FIRST_BLOCKS + TIMED_BLOCKS, models, timed, contextMs)) {
    if (i >= FIRST_BLOCKS) times.push(busy);
    busy = 0;
  }
  return times.sort((a, b) => a - b)[TIMED_BLOCKS >> 1] as number;
}

/** Runs the models of a voice once, so that its first session does not wait for memory and kernels. */
export async function warmBlock(models: RvcModels, run: RunModel, contextMs: number): Promise<void> {
  for await (const _ of blocks(1, models, run, contextMs));
}

/** Converts blocks of a tone. Yields the number of each when it is done. */
async function* blocks(
  count: number,
  models: RvcModels,
  run: RunModel,
  contextMs: number,
): AsyncGenerator<number> {
  const voice = { pitchHz: { low: 160, high: 225 } };
  const converter = new RvcConverter({ sampleRate: SOURCE_RATE, voice, models, run, contextMs });
  const length = (SOURCE_RATE * BLOCK_MS) / 1_000;
  const turn = (2 * Math.PI * 150) / SOURCE_RATE;
  for (let i = 0; i < count; i++) {
    await converter.push(Int16Array.from({ length }, (_, k) => 8_000 * Math.sin(turn * (i * length + k))));
    yield i;
  }
}

/** Returns how many streams devices carry, one run at a time on each. @param ms {@link blockTime} */
export function streamsCarried(ms: number, devices: number): number {
  return Math.floor((devices * LOAD * BLOCK_MS) / ms);
}
