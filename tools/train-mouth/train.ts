/**
 * Trains the network that turns sound into mouth poses, and writes `lip-sync/audio/mouth-weights.json`. Needs
 * flite, espeak-ng (with its library, libespeak-ng1) and python3, but no network access. The same programs give the
 * same weights.
 *
 *     node tools/train-mouth/train.ts
 */
import { writeFile } from 'node:fs/promises';
import {
  decodeWeights,
  encodeWeights,
  MouthModel,
} from '@semblance/engine-builtin/internal/lip-sync/audio/mouth-model';
import { encodeFloats } from '@semblance/engine-builtin/internal/lip-sync/audio/network';
import { heldOutSet, mouthTask, rehearsed, TRAINING_VOICES, trainingSet, wordless } from './corpus.ts';
import { type Figures, measure } from './measure.ts';
import { trainNetwork } from './network.ts';
import { trainProbe } from './probe.ts';

const log = (line: string): void => console.log(line);
const random = rehearsed();
const recordings = [...(await trainingSet(TRAINING_VOICES, random, log)), ...wordless(110, random)];
log(`${Math.round(recordings.reduce((sum, { count }) => sum + count, 0) / 6000)} minutes of sound`);
const weights = trainNetwork(mouthTask(recordings), {
  hidden: 40,
  epochs: 13,
  stride: 2,
  rate: 1.5e-3,
  random,
  log,
});
const file = encodeWeights(weights, { heldOut: {}, probe: '' });
// Measures this network alone, because the speech gate is trained separately.
const options = { model: new MouthModel(decodeWeights(file)), gated: false };
const heldOut: Record<string, Figures> = {};
for (const [voice, utterances] of await heldOutSet()) {
  heldOut[voice] = await measure(utterances, options);
  log(`${voice}: ${JSON.stringify(heldOut[voice])}`);
}
const all = [...(await heldOutSet()).values()].flat();
const figures = await measure(all, options);
log(`all held-out voices: ${JSON.stringify(figures)}`);
const probe = await trainProbe();
const rounded = Object.entries(figures).map(([name, value]) => [name, Number(value.toFixed(4))]);
const notes = { heldOut: Object.fromEntries(rounded), probe: encodeFloats(probe) };
await writeFile(
  new URL('../../packages/engine-builtin/lip-sync/audio/mouth-weights.json', import.meta.url),
  `${JSON.stringify(encodeWeights(weights, notes), null, 2)}\n`,
);
