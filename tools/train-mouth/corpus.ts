import {
  BANDS,
  FRAME_RATE,
  MelStream,
  SAMPLE_RATE,
} from '@semblance/engine-builtin/internal/lip-sync/audio/log-mel';
import { Loudness } from '@semblance/engine-builtin/internal/lip-sync/audio/loudness';
import {
  INPUTS,
  inputAt,
  OPENNESS_UNIT,
  OUTPUTS,
} from '@semblance/engine-builtin/internal/lip-sync/audio/mouth-model';
import { disturb, music } from '@semblance/testkit/sound/augment';
import { normal, type Random, seeded } from '@semblance/testkit/sound/random';
import type { Task } from './network.ts';
import { HELD_OUT_SENTENCES, nonsense, SENTENCES } from './sentences.ts';
import { speak, type Utterance, type Voice } from './speech.ts';
import { mouthTargets } from './targets.ts';

/** A voice, and the number of sentences and of lines of nonsense that it speaks. */
export interface Share {
  readonly voice: Voice;
  readonly sentences: number;
  readonly nonsense: number;
}

const flite = (name: string, speed: number): Share => ({
  voice: { program: 'flite', name, speed },
  sentences: 40,
  nonsense: 30,
});
const espeak = (name: string, speed: number, pitch: number, sentences = 14): Share => ({
  voice: { program: 'espeak-ng', name, speed, pitch },
  sentences,
  nonsense: 14,
});

export const TRAINING_VOICES: readonly Share[] = [
  flite('slt', 100),
  flite('rms', 100),
  flite('kal', 105),
  flite('slt', 82),
  flite('rms', 118),
  espeak('en-us', 165, 50),
  espeak('en-us+f2', 175, 60),
  espeak('en-gb-x-rp+m3', 150, 40),
  espeak('en-us+f4', 145, 55),
  espeak('en-us+m7', 190, 35),
  // Voices of other languages speak only nonsense: by their spelling rules it gives sounds that English lacks.
  espeak('es', 165, 50, 0),
  espeak('de+f3', 160, 55, 0),
  espeak('it+m2', 170, 45, 0),
  espeak('fr+f2', 160, 50, 0),
];

/** Speakers that the training never uses. */
export const HELD_OUT_VOICES: readonly Voice[] = [
  { program: 'flite', name: 'awb' },
  { program: 'espeak-ng', name: 'en-gb-scotland+f5', speed: 155, pitch: 60 },
  { program: 'espeak-ng', name: 'en-us+m4', speed: 170, pitch: 30 },
];

/** One recording: log-mel frames, their level, and four targets per frame. */
export interface Recording {
  readonly frames: Float32Array;
  readonly level: number;
  readonly targets: Float32Array;
  readonly count: number;
}

/** Weight of each output in the loss. */
const WEIGHTS = [1, 0.15, 0.15, 1];

/** Returns the task of predicting the targets of recordings. */
export function mouthTask(recordings: readonly Recording[]): Task {
  return {
    inputs: INPUTS,
    outputs: WEIGHTS.map((weight, o) => ({ weight, odds: OUTPUTS[o] === 'closure' })),
    counts: recordings.map(({ count }) => count),
    inputAt(recording, frame, out) {
      const { frames, level } = recordings[recording] as Recording;
      inputAt(frames, frame, level, out);
    },
    targetsAt(recording, frame, out) {
      out.set((recordings[recording] as Recording).targets.subarray(frame * 4, frame * 4 + 4));
      out[0] = (out[0] as number) / OPENNESS_UNIT;
    },
  };
}

/** Returns log-mel frames and level of a sound. */
export function analyse(samples: Float32Array): { frames: Float32Array; level: number; count: number } {
  const stream = new MelStream();
  const [a, b] = [stream.push(samples), stream.end()];
  const frames = new Float32Array(a.length + b.length);
  frames.set(a);
  frames.set(b, a.length);
  const loudness = new Loudness();
  loudness.add(frames);
  return { frames, level: loudness.level, count: frames.length / BANDS };
}

function toRecording({ samples, phones }: Utterance, levelError = 0): Recording {
  const { frames, level, count } = analyse(samples);
  const targets = mouthTargets(phones, count / FRAME_RATE);
  return { frames, level: level + levelError, count: Math.min(count, targets.count), targets: targets.data };
}

/** Returns the speech on which the network is trained. */
export async function trainingSet(
  voices: readonly Share[],
  random: Random,
  log: (line: string) => void,
): Promise<Recording[]> {
  const out: Recording[] = [];
  for (const [i, { voice, sentences, nonsense: lines }] of voices.entries()) {
    const texts = [...SENTENCES.slice(0, sentences), ...nonsense(100 + i, lines)];
    const utterances = await speak(voice, texts);
    for (const { samples, phones } of utterances)
      out.push(toRecording({ samples: disturb(samples, random), phones }, 0.5 * normal(random)));
    log(`${voice.program} ${voice.name}: ${texts.length} texts`);
  }
  return out;
}

/** Returns sounds during which the mouth does not move: music, noise and silence. */
export function wordless(count: number, random: Random): Recording[] {
  return Array.from({ length: count }, (_, i) => {
    const seconds = 4;
    const silent = new Float32Array(seconds * SAMPLE_RATE);
    const samples =
      i % 4 === 3
        ? disturb(
            silent.map(() => 0.01 * normal(random)),
            random,
          )
        : disturb(music(seconds, random), random);
    const { frames, level, count: n } = analyse(samples);
    return { frames, level: level + 0.5 * normal(random), count: n, targets: new Float32Array(n * 4) };
  });
}

/** Returns clean speech of the held-out voices. */
export async function heldOutSet(texts = HELD_OUT_SENTENCES): Promise<Map<string, Utterance[]>> {
  const out = new Map<string, Utterance[]>();
  for (const voice of HELD_OUT_VOICES) out.set(`${voice.program} ${voice.name}`, await speak(voice, texts));
  return out;
}

export const rehearsed = (): Random => seeded(1);
