import { GATE_INPUTS, GateInput } from '@semblance/engine-builtin/internal/lip-sync/audio/gate-input';
import { FRAME_RATE, SAMPLE_RATE } from '@semblance/engine-builtin/internal/lip-sync/audio/log-mel';
import type { Phone } from '@semblance/speech/sounds';
import { disturb } from '@semblance/testkit/sound/augment';
import { normal, pick, type Random } from '@semblance/testkit/sound/random';
import { analyse, type Share } from './corpus.ts';
import type { Wordless } from './instruments.ts';
import type { Task } from './network.ts';
import { nonsense, SENTENCES } from './sentences.ts';
import { speak, type Utterance } from './speech.ts';

/** A sound whose frames are labelled as near speech or not. */
export interface Heard {
  readonly frames: Float32Array;
  readonly level: number;
  /** 1 for each frame within {@link AROUND} of a sound of speech, 0 for others. */
  readonly speech: Float32Array;
}

/** Time before and after a sound of speech that counts as speech, in seconds. */
const AROUND = 0.2;
/** Length of each sound without speech, in seconds. */
const WORDLESS_SEC = 5;
/** Amount of sound without speech, relative to that with speech. */
const WORDLESS_SHARE = 1.8;

/** Speaks some sentences with every voice, different ones for each, and lines of nonsense. */
export async function gateSpeech(
  voices: readonly Share[],
  sentences: number,
  lines: number,
): Promise<Utterance[]> {
  const out: Utterance[] = [];
  for (const [i, { voice, sentences: most }] of voices.entries()) {
    const first = (i * 5) % 25;
    const texts = SENTENCES.slice(first, first + Math.min(sentences, most));
    out.push(...(await speak(voice, [...texts, ...nonsense(100 + i, lines)])));
  }
  return out;
}

function rms(samples: Float32Array): number {
  return Math.sqrt(samples.reduce((sum, x) => sum + x * x, 0) / Math.max(1, samples.length));
}

/** Mixes another sound into speech. @param db level of the speech above the other sound */
export function over(speech: Float32Array, other: Float32Array, db: number): Float32Array {
  const gain = rms(speech) / Math.max(1e-6, rms(other)) / 10 ** (db / 20);
  return speech.map((x, i) => x + gain * (other[i] ?? 0));
}

function near(phones: readonly Phone[], count: number): Float32Array {
  const out = new Float32Array(count);
  for (const { sound, start, end } of phones) {
    if (sound === undefined) continue;
    out.fill(
      1,
      Math.max(0, Math.floor((start - AROUND) * FRAME_RATE)),
      Math.ceil((end + AROUND) * FRAME_RATE),
    );
  }
  return out;
}

function hear(samples: Float32Array, phones: readonly Phone[], random: Random): Heard {
  const { frames, level, count } = analyse(disturb(samples, random));
  return { frames, level: level + 0.5 * normal(random), speech: near(phones, count) };
}

/** Returns speech with some silence around it, half of it mixed with other sounds, and more of these sounds alone. */
export function gateSet(
  utterances: readonly Utterance[],
  kinds: readonly Wordless[],
  random: Random,
): Heard[] {
  const out: Heard[] = [];
  for (const { samples, phones } of utterances) {
    const [before, after] = [1.2 * random() ** 2, 1.2 * random() ** 2];
    const lead = Math.round(before * SAMPLE_RATE);
    const padded = new Float32Array(lead + samples.length + Math.round(after * SAMPLE_RATE));
    padded.set(samples, lead);
    const later = phones.map((phone) => ({ ...phone, start: phone.start + before, end: phone.end + before }));
    const seconds = padded.length / SAMPLE_RATE;
    const whole =
      random() < 0.5 ? padded : over(padded, pick(random, kinds)(seconds, random), 26 * random() - 2);
    out.push(hear(whole, later, random));
  }
  const seconds = out.reduce((sum, { speech }) => sum + speech.length / FRAME_RATE, 0);
  for (let i = 0; i * WORDLESS_SEC < WORDLESS_SHARE * seconds; i++)
    out.push(hear((kinds[i % kinds.length] as Wordless)(WORDLESS_SEC, random), [], random));
  return out;
}

export function gateTask(heard: readonly Heard[]): Task {
  const input = new GateInput();
  return {
    inputs: GATE_INPUTS,
    outputs: [{ weight: 1, odds: true }],
    counts: heard.map(({ speech }) => speech.length),
    inputAt(recording, frame, out) {
      const { frames, level } = heard[recording] as Heard;
      input.at(frames, frame, level, out);
    },
    targetsAt(recording, frame, out) {
      out[0] = (heard[recording] as Heard).speech[frame] as number;
    },
  };
}
