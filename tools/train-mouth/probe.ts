import { GATE_INPUTS } from '@semblance/engine-builtin/internal/lip-sync/audio/gate-input';
import { INPUTS } from '@semblance/engine-builtin/internal/lip-sync/audio/mouth-model';
import type { Network } from '@semblance/engine-builtin/internal/lip-sync/audio/network';
import { type Random, seeded } from '@semblance/testkit/sound/random';
import { mouthTask, TRAINING_VOICES, trainingSet, wordless } from './corpus.ts';
import { gateSet, gateSpeech, gateTask } from './gate-corpus.ts';
import { WORDLESS } from './instruments.ts';
import { trainNetwork } from './network.ts';

const VOICES = [TRAINING_VOICES[0], TRAINING_VOICES[5]] as (typeof TRAINING_VOICES)[number][];
const brief = (random: Random) => ({
  hidden: 8,
  epochs: 2,
  stride: 4,
  rate: 1e-3,
  random,
  log: () => undefined,
});

/**
 * Trains for seconds on a few texts of two voices, and returns some of the weights. The weights file contains the
 * same numbers. Whoever gets equal ones has the same speech, features, disturbances and training as the authors of
 * the file.
 */
export async function trainProbe(): Promise<number[]> {
  const random = seeded(7);
  const voices = VOICES.map((share) => ({ ...share, sentences: 2, nonsense: 1 }));
  const recordings = [...(await trainingSet(voices, random, () => undefined)), ...wordless(2, random)];
  return someOf(trainNetwork(mouthTask(recordings), brief(random)), INPUTS);
}

/** Does the same for the gate, with three kinds of other sounds. */
export async function trainGateProbe(): Promise<number[]> {
  const random = seeded(7);
  const kinds = [WORDLESS.band, WORDLESS.wah, WORDLESS.noise].flatMap((kind) => kind ?? []);
  const heard = gateSet(await gateSpeech(VOICES, 2, 1), kinds, random);
  return someOf(trainNetwork(gateTask(heard), brief(random)), GATE_INPUTS);
}

function someOf({ inner, outer, outerBias }: Network, inputs: number): number[] {
  const picked = Array.from({ length: 16 }, (_, i) => inner[(i * 173) % (8 * inputs)] as number);
  return [...outer, ...outerBias, ...picked].map((value) => Number(value.toFixed(6)));
}
