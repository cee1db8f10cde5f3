import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { resample } from '@semblance/speech/resample';
import { music as band } from '../sound/augment.ts';
import { normal, seeded } from '../sound/random.ts';

/** Sample rate of all test sounds, in Hz. */
export const RATE = 48_000;
const run = promisify(execFile);
const ALSA = '/usr/share/sounds/alsa';
const ASTERISK = '/usr/share/asterisk/sounds/en';
const WORDS = 'She had your dark suit in greasy wash water all year.';

/** Synthetic speakers, low and high, one with a creaky voice. */
export const SPEAKERS = [
  'flite rms',
  'flite slt',
  'flite awb',
  'espeak-ng en-us+m3',
  'espeak-ng en-us+f3',
] as const;
export const CREAKY = 'espeak-ng en-us+croak';

/** Speaks words with flite or espeak-ng. @param speaker program and voice */
export async function speech(speaker: string, words = WORDS): Promise<Int16Array> {
  const [program = '', voice = ''] = speaker.split(' ');
  const directory = await mkdtemp(join(tmpdir(), 'semblance-voice-'));
  try {
    const wav = join(directory, 'speech.wav');
    await (program === 'flite'
      ? run('flite', ['-voice', voice, '-t', words, '-o', wav])
      : run('espeak-ng', ['-v', voice, '-w', wav, words]));
    return await decode(wav);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

/** Recordings of people: a woman in a studio (alsa-utils), another over a telephone (asterisk-core-sounds-en). */
export async function people(): Promise<ReadonlyMap<string, Int16Array>> {
  const studio = ['Front_Center', 'Rear_Left', 'Side_Right'].map((name) => join(ALSA, `${name}.wav`));
  const telephone = ['vm-intro', 'tt-weasels'].map((name) => join(ASTERISK, `${name}.gsm`));
  return new Map([
    ['studio', joined(await Promise.all(studio.map(decode)))],
    ['telephone', joined(await Promise.all(telephone.map(decode)))],
  ]);
}

/** Reads any sound file of this machine's packages, which are trusted. */
export async function decode(path: string): Promise<Int16Array> {
  const args = ['-v', 'error', '-i', path, '-ac', '1', '-ar', String(RATE), '-f', 's16le', '-'];
  const { stdout } = await run('ffmpeg', args, { encoding: 'buffer', maxBuffer: 1 << 28 });
  return Int16Array.from({ length: stdout.length >> 1 }, (_, i) => stdout.readInt16LE(2 * i));
}

export function joined(parts: readonly Int16Array[]): Int16Array {
  const out = new Int16Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

/** Formants of a man's vowels in Hz (Peterson and Barney, "Control methods used in a study of the vowels", 1952). */
export const VOWELS = {
  a: [730, 1090, 2440, 3400],
  ae: [660, 1720, 2410, 3400],
  uh: [520, 1190, 2390, 3400],
  i: [280, 2250, 2890, 3500],
} as const;
const BANDWIDTHS = [70, 90, 120, 160];

export interface VowelOptions {
  readonly hz: number;
  readonly formants: readonly number[];
  readonly seconds: number;
  /** Share by which the pitch rises and falls, 1.7 times per second. */
  readonly glide?: number;
}

/** Synthesises a vowel by pulses through resonators, so that pitch and formants are known. */
export function vowel({ hz, formants, seconds, glide = 0 }: VowelOptions): Int16Array {
  const sound = new Float64Array(Math.round(seconds * RATE));
  let phase = 0;
  for (let n = 1; n < sound.length; n++) {
    const now = hz * (1 + glide * Math.sin((2 * Math.PI * 1.7 * n) / RATE));
    phase += now / RATE;
    if (phase < 1) continue;
    phase -= 1;
    // The pulse lies between two samples.
    const late = (phase * RATE) / now;
    sound[n - 1] = (sound[n - 1] as number) + late;
    sound[n] = (sound[n] as number) + 1 - late;
  }
  filter(sound, 1, [0.98, 0]);
  for (const [i, formant] of formants.entries()) {
    const radius = Math.exp((-Math.PI * (BANDWIDTHS[i] ?? 200)) / RATE);
    const a1 = 2 * radius * Math.cos((2 * Math.PI * formant) / RATE);
    filter(sound, 1 - a1 + radius ** 2, [a1, -(radius ** 2)]);
  }
  return levelled(sound, 0.4);
}

/** y[n] = gain · x[n] + a1 · y[n−1] + a2 · y[n−2], in place. */
function filter(sound: Float64Array, gain: number, [a1, a2]: readonly [number, number]): void {
  let [y1, y2] = [0, 0];
  for (let n = 0; n < sound.length; n++) {
    const y = gain * (sound[n] as number) + a1 * y1 + a2 * y2;
    y2 = y1;
    y1 = y;
    sound[n] = y;
  }
}

function levelled(sound: Float64Array, peak: number): Int16Array {
  const most = sound.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
  return Int16Array.from(sound, (x) => Math.round((x / most) * peak * 32_767));
}

/** Returns white noise. @param level RMS as a share of full scale */
export function noise(seconds: number, level: number, seed = 1): Int16Array {
  const random = seeded(seed);
  return Int16Array.from({ length: Math.round(seconds * RATE) }, () => sample(level * normal(random)));
}

/** Returns instrumental music. */
export function music(seconds: number, seed = 7): Int16Array {
  const low = Int16Array.from(band(seconds, seeded(seed)), (x) => sample(x / 2));
  return resample(low, 16_000, RATE);
}

/** Mixes two sounds, cut to the shorter. */
export function mixed(a: Int16Array, b: Int16Array, gain = 1): Int16Array {
  return Int16Array.from({ length: Math.min(a.length, b.length) }, (_, i) =>
    sample(((a[i] as number) + gain * (b[i] as number)) / 32_768),
  );
}

function sample(value: number): number {
  return Math.max(-32_768, Math.min(32_767, Math.round(value * 32_768)));
}
