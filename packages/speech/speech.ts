import { type FileHandle, open } from 'node:fs/promises';
import { RenderError } from '@semblance/engine-api/engine';
import { type Part, shareOut } from './parts.ts';
import { resample } from './resample.ts';
import { passagesOf } from './script-text.ts';
import { type Phone, VOWELS } from './sounds.ts';
import { Speaker } from './speaker.ts';
import type { Sounding, SpeechTools } from './speech-tools.ts';
import type { Utterance } from './synthesiser.ts';
import { chooseVoice, soundsLike, voiceId } from './voices.ts';
import { wavHeader } from './wav-header.ts';

/** Sample rate of the written sound, in Hz. */
export const SAMPLE_RATE = 48_000;
/** Longest speech, in seconds: the limit of any sound. */
const MAX_SPEECH_SEC = 1_790;
/** Least silence after a passage, and after a paragraph, in seconds, including the voice's own. */
const PAUSE_SEC = 0.25;
const PARAGRAPH_PAUSE_SEC = 0.6;
/**
 * Silence before the first word and after the last, in seconds; without it a face seems cut off with its mouth
 * open.
 */
const LEAD_SEC = 0.2;
const TAIL_SEC = 0.4;
/** RMS level of every passage, as a share of full scale. Without it voices differ by 10 dB. */
const LEVEL = 0.11;
const PEAK = 0.89;

export interface SpokenScript {
  readonly seconds: number;
  /** Sounds from 0 to the end, including silences. */
  readonly phones: readonly Phone[];
  /** Name of the chosen voice, what it sounds like, and names of voices that spoke letters which it cannot read. */
  readonly voice: string;
  readonly sounding: Sounding | undefined;
  readonly otherVoices: readonly string[];
  /** Single letters that no voice reads, with the names of their writing systems. */
  readonly leftOut: readonly string[];
  readonly languageUnknown: boolean;
}

export interface SpeakOptions {
  readonly script: string;
  readonly voiceId?: string | undefined;
  /** BCP 47 tag, used as a hint. */
  readonly language?: string | undefined;
  /** What a voice that nobody named is to sound like. */
  readonly sounding?: Sounding | undefined;
  /** WAV file to write, 16 bits, mono, {@link SAMPLE_RATE}. */
  readonly path: string;
  /** Existing private directory; only `path` remains in it. */
  readonly directory: string;
  readonly tools: SpeechTools;
  readonly signal: AbortSignal;
  /** @param fraction spoken part of the script, 0–1 */
  readonly onProgress?: (fraction: number) => void;
}

/**
 * Speaks a script into a file, passage by passage. Apart from the list of sounds, memory does not grow with its
 * length.
 * @throws RenderError `processing_failed` if there is nothing to say, no voice reads all of its words, there is no
 * such voice, or it fails; `input_too_large` if it takes longer than {@link MAX_SPEECH_SEC}
 */
export async function speakScript(options: SpeakOptions): Promise<SpokenScript> {
  const { script, tools, signal, directory, path } = options;
  const passages = passagesOf(script);
  if (passages.length === 0) {
    throw new RenderError('processing_failed', 'The script has no letter or digit: there is nothing to say.');
  }
  const { voice, languageUnknown } = chooseVoice(tools, passages, options);
  const { parts, leftOut } = shareOut(tools, voice, passages);
  const whole = parts.reduce((sum, { text }) => sum + text.length, 0);
  const phones: Phone[] = [{ sound: undefined, start: 0, end: LEAD_SEC }];
  const others = new Set<string>();
  const speaker = new Speaker({ tools, signal, directory });
  const file = await WavFile.create(path);
  try {
    await file.silence(LEAD_SEC);
    let done = 0;
    for (const part of parts) {
      const own = part.voice;
      if (voiceId(own) !== voiceId(voice)) others.add(voiceId(own));
      const utterance = await speaker.speak(own, part.text);
      await append(file, phones, utterance, part);
      if (file.seconds > MAX_SPEECH_SEC) {
        throw new RenderError(
          'input_too_large',
          `The script takes longer to say than ${(MAX_SPEECH_SEC / 60) | 0} minutes.`,
        );
      }
      done += part.text.length;
      options.onProgress?.(done / whole);
    }
    if (!phones.some(({ sound }) => sound !== undefined)) {
      throw new RenderError(
        'processing_failed',
        `The voice ${voiceId(voice)} can say nothing of the script.`,
      );
    }
    phones.push({ sound: undefined, start: file.seconds, end: file.seconds + TAIL_SEC });
    await file.silence(TAIL_SEC);
    await file.finish();
    return {
      seconds: file.seconds,
      phones,
      voice: voiceId(voice),
      sounding: soundsLike(voice),
      otherVoices: [...others],
      leftOut,
      languageUnknown,
    };
  } finally {
    await speaker.close();
    await file.close();
  }
}

async function append(
  file: WavFile,
  phones: Phone[],
  { samples, sampleRate, phones: said }: Utterance,
  { endsParagraph }: Part,
): Promise<void> {
  const base = file.seconds;
  const end = samples.length / sampleRate;
  const even = levelled(samples);
  for (const { sound, start, end: until } of said) {
    if (start >= end) continue;
    const times = { start: base + start, end: base + Math.min(until, end) };
    phones.push({
      sound,
      ...times,
      ...(sound && VOWELS.has(sound)
        ? { loudness: loudness(even, start * sampleRate, until * sampleRate) }
        : {}),
    });
  }
  await file.write(resample(even, sampleRate, SAMPLE_RATE));
  const last = said.findLast(({ sound }) => sound !== undefined);
  const wanted = endsParagraph ? PARAGRAPH_PAUSE_SEC : PAUSE_SEC;
  const lack = wanted - Math.max(0, end - (last?.end ?? 0));
  const from = phones.at(-1)?.end ?? base;
  if (lack > 0) await file.silence(lack);
  if (file.seconds > from) phones.push({ sound: undefined, start: from, end: file.seconds });
}

/** Returns the loudness of a part of levelled speech, relative to that of the whole. */
function loudness(samples: Int16Array, from: number, to: number): number {
  const part = samples.subarray(Math.floor(from), Math.ceil(to));
  const sum = part.reduce((total, sample) => total + sample * sample, 0);
  return Math.sqrt(sum / Math.max(1, part.length)) / 32_768 / LEVEL;
}

/**
 * Brings speech to the common level, without clipping.
 * @param most largest sample of the result, as a share of full scale
 */
export function levelled(samples: Int16Array, most = PEAK): Int16Array {
  let peak = 1;
  let sum = 0;
  let count = 1;
  for (const sample of samples) {
    const size = Math.abs(sample);
    if (size > peak) peak = size;
    // Samples of pauses do not count.
    if (size > 300) {
      sum += sample * sample;
      count++;
    }
  }
  const rms = Math.sqrt(sum / count) / 32_768;
  const gain = Math.min(rms > 0 ? LEVEL / rms : 1, (most * 32_768) / peak, 4);
  return samples.map((sample) => Math.round(sample * gain));
}

/** A mono WAV file that grows. */
class WavFile {
  readonly #file: FileHandle;
  #samples = 0;

  private constructor(file: FileHandle) {
    this.#file = file;
  }

  static async create(path: string): Promise<WavFile> {
    const file = new WavFile(await open(path, 'wx', 0o600));
    await file.finish();
    return file;
  }

  get seconds(): number {
    return this.#samples / SAMPLE_RATE;
  }

  async write(samples: Int16Array): Promise<void> {
    const bytes = new Uint8Array(samples.buffer, samples.byteOffset, samples.byteLength);
    await this.#file.write(bytes, 0, bytes.length, 44 + 2 * this.#samples);
    this.#samples += samples.length;
  }

  silence(seconds: number): Promise<void> {
    return this.write(new Int16Array(Math.round(seconds * SAMPLE_RATE)));
  }

  /** Writes the header for the present content. */
  async finish(): Promise<void> {
    const header = wavHeader(2 * this.#samples, SAMPLE_RATE);
    await this.#file.write(header, 0, 44, 0);
  }

  close(): Promise<void> {
    return this.#file.close();
  }
}
