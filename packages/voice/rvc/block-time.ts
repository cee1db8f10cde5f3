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
  const voice = { pitchHz: { low: 160, high: 225 } };
  const converter = new RvcConverter({ sampleRate: SOURCE_RATE, voice, models, run: timed, contextMs });
  const block = (SOURCE_RATE * BLOCK_MS) / 1_000;
  const times: number[] = [];
  for (let i = 0; i < FIRST_BLOCKS + TIMED_BLOCKS; i++) {
    busy = 0;
    await converter.push(
      Int16Array.from(
        { length: block },
        (_, k) => 8_000 * Math.sin((2 * Math.PI * 150 * (i * block + k)) / SOURCE_RATE),
      ),
    );
    if (i >= FIRST_BLOCKS) times.push(busy);
  }
  return times.sort((a, b) => a - b)[TIMED_BLOCKS >> 1] as number;
}

/** Returns how many streams devices carry, one run at a time on each. @param ms {@link blockTime} */
export function streamsCarried(ms: number, devices: number): number {
  return Math.floor((devices * LOAD * BLOCK_MS) / ms);
}
