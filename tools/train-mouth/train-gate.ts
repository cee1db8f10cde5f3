/**
 * Trains the network that distinguishes speech from other sounds, and writes `lip-sync/audio/gate-weights.json`.
 * Needs flite, espeak-ng (with its library, libespeak-ng1) and python3, but no network access. The same programs
 * give the same weights.
 *
 *     node tools/train-mouth/train-gate.ts
 */
import { writeFile } from 'node:fs/promises';
import { FRAME_RATE } from '@semblance/engine-builtin/internal/lip-sync/audio/log-mel';
import { encodeFloats } from '@semblance/engine-builtin/internal/lip-sync/audio/network';
import { encodeGate } from '@semblance/engine-builtin/internal/lip-sync/audio/speech-gate';
import { seeded } from '@semblance/testkit/sound/random';
import { TRAINING_VOICES } from './corpus.ts';
import { gateSet, gateSpeech, gateTask } from './gate-corpus.ts';
import { WORDLESS } from './instruments.ts';
import { trainNetwork } from './network.ts';
import { trainGateProbe } from './probe.ts';

const log = (line: string): void => console.log(line);
const random = seeded(11);
const heard = gateSet(await gateSpeech(TRAINING_VOICES, 12, 6), Object.values(WORDLESS), random);
const frames = heard.reduce((sum, { speech }) => sum + speech.length, 0);
log(`${Math.round(frames / FRAME_RATE / 60)} minutes of sound`);
const network = trainNetwork(gateTask(heard), { hidden: 24, epochs: 8, stride: 10, rate: 2e-3, random, log });
const file = encodeGate(network, { probe: encodeFloats(await trainGateProbe()) });
await writeFile(
  new URL('../../packages/engine-builtin/lip-sync/audio/gate-weights.json', import.meta.url),
  `${JSON.stringify(file, null, 2)}\n`,
);
