import { RenderError } from '@semblance/engine-api/engine';
import { ByteReader } from '@semblance/media/byte-reader';
import { startProgram, type Tool } from '@semblance/media/sandbox';
import { type Phone, type Sound, soundOfIpa } from './sounds.ts';
import {
  LIMITS,
  type Synthesiser,
  type SynthesiserOptions,
  speechFailure,
  type Utterance,
  WALL_SEC,
} from './synthesiser.ts';
import { ESPEAK_ARGS, ESPEAK_SCRIPT } from './tools.ts';

const MAX_HEAD = 4 << 20;
/** Most samples of one passage: the length limit of a script, and one more piece. */
const MAX_SAMPLES = 48_000 * 610;

/** Lead time of stops, in seconds. espeak-ng reports a stop at its release, but its closure is the silence before. */
const STOP_LEAD: Readonly<Record<string, number>> = {
  p: 0.045,
  b: 0.02,
  t: 0.04,
  d: 0.02,
  k: 0.04,
  g: 0.02,
  ch: 0.04,
};
/** How the report of espeak-ng is converted into sounds with times. */
export interface PhonemeReading {
  /** Sound of an IPA name. Undefined for silence, null for names without a duration. */
  readonly soundOf: (name: string) => Sound | undefined | null;
  /** Time before its event at which the closure of a stop begins, in seconds. */
  readonly leadOf: (name: string, sound: Sound | undefined) => number;
  /** Share of its length that the sound before a closure keeps. */
  readonly kept: number;
}

/** Default reading. A name in brackets is a change of language. */
const READING: PhonemeReading = {
  soundOf: (name) => (name.startsWith('(') ? null : soundOfIpa(name)),
  leadOf: (_name, sound) => STOP_LEAD[sound ?? ''] ?? 0,
  kept: 0.5,
};

/** Deviations from a voice's defaults. */
export interface EspeakManner {
  /** Words per minute, and pitch from 0 to 99. */
  readonly rate?: number;
  readonly pitch?: number;
  /** Whether the pause of a sentence also follows its last word; default true. */
  readonly endPause?: boolean;
  readonly reading?: PhonemeReading;
}

/** Length of the release of a voiceless stop, in seconds. Only breath follows, and the lips already move. */
const RELEASE = 0.015;

interface Head {
  readonly rate: number;
  readonly samples: number;
  readonly phonemes: readonly (readonly [string, number])[];
}

/** Creates a speaker with espeak-ng: one process for all passages of a voice. */
export function openEspeak(
  voice: string,
  options: SynthesiserOptions,
  { rate, pitch, endPause = true, reading = READING }: EspeakManner = {},
): Synthesiser {
  const manner = [
    ...(rate === undefined ? [] : [`rate=${rate}`]),
    ...(pitch === undefined ? [] : [`pitch=${pitch}`]),
    ...(endPause ? [] : ['pause=0']),
  ];
  const script = openScript([voice, ...manner], options);
  return {
    speak: (text) => script.ask(text, (reader) => readAnswer(reader, reading)),
    close: script.close,
  };
}

/** A clause of a text: its phonemes in IPA, and the sign that ends it; empty where there is none. */
export type Clause = readonly [phonemes: string, end: string];

/** Reads texts as espeak-ng does, without a sound. */
export interface Phonemiser {
  /** @param text without control characters and line breaks @throws RenderError */
  clauses(text: string): Promise<readonly Clause[]>;
  close(): Promise<void>;
}

/** Creates a phonemiser with espeak-ng: one process for all passages. */
export function openPhonemiser(voice: string, options: SynthesiserOptions): Phonemiser {
  const script = openScript(['--phonemes', voice], options);
  return {
    clauses: (text) => script.ask(text, (reader) => readHead<Clause[]>(reader)),
    close: script.close,
  };
}

/** Starts espeak.py at the first question, and asks it one text at a time. */
function openScript(args: readonly string[], { tools, guard, signal }: SynthesiserOptions) {
  if (!tools.espeak) throw new RenderError('processing_failed', 'espeak-ng is not there any more.');
  const { python } = tools.espeak;
  let started: Promise<{ tool: Tool; reader: ByteReader }> | undefined;
  const start = async () => {
    const tool = await startProgram({
      file: python,
      isolation: tools.isolation,
      read: [ESPEAK_SCRIPT],
      guard,
      signal,
      feed: true,
      limits: { ...LIMITS, cpuSec: 600 },
      args: [...ESPEAK_ARGS, ...args],
    });
    return { tool, reader: new ByteReader(tool.stdout) };
  };
  return {
    /** @param read reads the answer; undefined if it broke off */
    async ask<T>(text: string, read: (reader: ByteReader) => Promise<T | undefined>): Promise<T> {
      started ??= start();
      const { tool, reader } = await started;
      const timer = setTimeout(() => tool.kill(), WALL_SEC * 1000);
      try {
        tool.stdin?.write(`${JSON.stringify(text)}\n`);
        const answer = await read(reader);
        signal.throwIfAborted();
        if (answer) return answer;
        // A tool that closed its output is about to end, so its exit status is awaited.
        const end = setTimeout(() => tool.kill(), 1_000);
        const exit = await tool.exited;
        clearTimeout(end);
        throw speechFailure('espeak-ng', exit);
      } finally {
        clearTimeout(timer);
      }
    },
    async close(): Promise<void> {
      const running = await started?.catch(() => undefined);
      if (!running) return;
      running.tool.kill();
      await running.tool.exited;
      running.tool.stdout.destroy();
    },
  };
}

/** Reads a line of JSON; undefined if the output ended. */
async function readHead<T>(reader: ByteReader): Promise<T | undefined> {
  const bytes: number[] = [];
  for (;;) {
    const byte = await reader.byte();
    if (byte === undefined || bytes.length > MAX_HEAD) return undefined;
    if (byte === 0x0a) break;
    bytes.push(byte);
  }
  return JSON.parse(Buffer.from(bytes).toString('utf8')) as T;
}

async function readAnswer(reader: ByteReader, reading: PhonemeReading): Promise<Utterance | undefined> {
  const head = await readHead<Head>(reader);
  if (!head || !(head.samples >= 0 && head.samples <= MAX_SAMPLES)) return undefined;
  const samples = new Int16Array(head.samples);
  if (!(await reader.fill(new Uint8Array(samples.buffer)))) return undefined;
  return { sampleRate: head.rate, samples, phones: phonesOf(head, reading) };
}

/** Converts the start times that espeak-ng reports into sounds. */
function phonesOf({ rate, samples, phonemes }: Head, { soundOf, leadOf, kept }: PhonemeReading): Phone[] {
  const events = phonemes.flatMap(([name, at]) => {
    const sound = soundOf(name);
    return sound === null ? [] : [{ sound, at: at / rate, lead: leadOf(name, sound) }];
  });
  const seconds = samples / rate;
  const starts = events.map(({ at, lead }, i) => {
    const before = events[i - 1]?.at ?? 0;
    return Math.min(seconds, Math.max(before + kept * (at - before), at - lead));
  });
  const phones: Phone[] = [];
  if (starts[0] === undefined || starts[0] > 0)
    phones.push({ sound: undefined, start: 0, end: starts[0] ?? seconds });
  for (const [i, { sound, at }] of events.entries()) {
    const start = starts[i] as number;
    const end = Math.max(start, starts[i + 1] ?? seconds);
    const released = sound === 'p' ? Math.min(end, Math.max(start, at + RELEASE)) : end;
    phones.push({ sound, start, end: released });
    if (released < end) phones.push({ sound: 'hh', start: released, end });
  }
  return phones.filter(({ start, end }) => end > start);
}
