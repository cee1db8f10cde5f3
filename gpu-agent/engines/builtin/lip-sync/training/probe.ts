import { INPUTS } from '../audio/mouth-model.ts';
import { TRAINING_VOICES, trainingSet, wordless } from './corpus.ts';
import { trainNetwork } from './network.ts';
import { seeded } from './random.ts';

/**
 * A training on a few texts of two voices, in seconds. Its weights, a few of them, stand in the weights file: who gets
 * the same ones has the same speech, features, disturbances and training as those who made the file.
 */
export async function trainProbe(): Promise<number[]> {
  const random = seeded(7);
  const voices = [TRAINING_VOICES[0], TRAINING_VOICES[5]].map((share) => ({
    ...(share as (typeof TRAINING_VOICES)[number]),
    sentences: 2,
    nonsense: 1,
  }));
  const recordings = [...(await trainingSet(voices, random, () => undefined)), ...wordless(2, random)];
  const weights = trainNetwork(recordings, {
    ...{ hidden: 8, epochs: 2, stride: 4, rate: 1e-3 },
    random,
    log: () => undefined,
  });
  const picked = Array.from({ length: 16 }, (_, i) => weights.inner[(i * 173) % (8 * INPUTS)] as number);
  return [...weights.outer, ...weights.outerBias, ...picked].map((value) => Number(value.toFixed(6)));
}
