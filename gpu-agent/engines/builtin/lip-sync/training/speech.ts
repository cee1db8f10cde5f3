import { execFile, spawn } from 'node:child_process';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { SAMPLE_RATE } from '../audio/log-mel.ts';
import { type Phone, soundClass } from './visemes.ts';

const run = promisify(execFile);

export interface Voice {
  readonly program: 'flite' | 'espeak-ng';
  readonly name: string;
  /** Speed (flite: stretch of durations in percent of normal; espeak-ng: words a minute) and, for espeak-ng, pitch 0–99. */
  readonly speed?: number;
  readonly pitch?: number;
}

export interface Utterance {
  /** Mono, {@link SAMPLE_RATE}. */
  readonly samples: Float32Array;
  readonly phones: readonly Phone[];
}

/** Speaks every text with a voice. */
export async function speak(voice: Voice, texts: readonly string[]): Promise<Utterance[]> {
  const directory = await mkdtemp(join(tmpdir(), 'semblance-speech-'));
  try {
    return voice.program === 'flite'
      ? await speakFlite(voice, texts, directory)
      : await speakEspeak(voice, texts, directory);
  } finally {
    await rm(directory, { recursive: true, force: true });
  }
}

async function speakFlite(voice: Voice, texts: readonly string[], directory: string): Promise<Utterance[]> {
  const out: Utterance[] = [];
  for (const text of texts) {
    const wav = join(directory, 'speech.wav');
    const { stdout } = await run('flite', [
      ...['-voice', voice.name, '--setf', `duration_stretch=${(voice.speed ?? 100) / 100}`],
      ...['-psdur', '-t', text, '-o', wav],
    ]);
    let start = 0;
    // One `name:end` after the other; each sentence starts the clock again.
    let base = 0;
    const phones: Phone[] = [];
    for (const item of stdout.trim().split(/\s+/)) {
      const [name, at] = item.split(':');
      if (name === undefined || at === undefined) continue;
      if (base + Number(at) < start) base = start;
      const end = base + Number(at);
      phones.push({ name, start, end });
      start = end;
    }
    out.push({ samples: await readWav(wav), phones });
  }
  return out;
}

/** espeak-ng tells of a stop when its lips or tongue let go; the closure is the silence before. Seconds. */
const STOP_LEAD: Readonly<Record<string, number>> = { p: 0.045, b: 0.02, t: 0.04, d: 0.02, k: 0.04, ɡ: 0.02 };
/** After the release of a voiceless stop only breath follows, with the lips on their way. */
const RELEASE = 0.015;

async function speakEspeak(voice: Voice, texts: readonly string[], directory: string): Promise<Utterance[]> {
  const script = join(import.meta.dirname, 'espeak-phonemes.py');
  const child = spawn('python3', [script], { stdio: ['pipe', 'pipe', 'inherit'] });
  const wav = (i: number): string => join(directory, `${i}.wav`);
  const jobs = texts.map((text, i) => ({
    voice: voice.name,
    text,
    rate: voice.speed ?? 165,
    pitch: voice.pitch ?? 50,
    wav: wav(i),
  }));
  child.stdin.end(jobs.map((job) => `${JSON.stringify(job)}\n`).join(''));
  let said = '';
  for await (const piece of child.stdout.setEncoding('utf8')) said += piece;
  const lines = said.trim().split('\n');
  if (lines.length !== texts.length)
    throw new Error(`espeak-ng spoke ${lines.length} of ${texts.length} texts`);
  const out: Utterance[] = [];
  for (const [i, line] of lines.entries()) {
    const { rate, phonemes } = JSON.parse(line) as { rate: number; phonemes: [string, number][] };
    const samples = await readWav(wav(i));
    const starts = phonemes.map(([name, at], k) => {
      const after = k === 0 ? 0 : (phonemes[k - 1]?.[1] ?? 0) / rate;
      return Math.max(after, at / rate - (STOP_LEAD[name] ?? 0));
    });
    const phones: Phone[] = [];
    for (const [k, [name, at]] of phonemes.entries()) {
      const start = starts[k] as number;
      const end = starts[k + 1] ?? samples.length / SAMPLE_RATE;
      const released = name === 'p' && soundClass(name) === 'bilabial' ? at / rate + RELEASE : end;
      phones.push({ name, start, end: Math.min(end, released) });
      if (released < end) phones.push({ name: 'h', start: released, end });
    }
    out.push({ samples, phones });
  }
  return out;
}

/** Reads a mono 16-bit WAV file and brings it to {@link SAMPLE_RATE}. */
async function readWav(path: string): Promise<Float32Array> {
  const file = await readFile(path);
  const rate = file.readUInt32LE(24);
  const at = file.indexOf('data') + 8;
  const count = (file.length - at) >> 1;
  const samples = Float32Array.from({ length: count }, (_, i) => file.readInt16LE(at + 2 * i) / 32768);
  return resample(samples, rate, SAMPLE_RATE);
}

/** Windowed-sinc resampling (Hann, 12 zero crossings to each side). */
export function resample(samples: Float32Array, from: number, to: number): Float32Array {
  if (from === to) return samples;
  const count = Math.floor((samples.length * to) / from);
  const out = new Float32Array(count);
  const cut = Math.min(1, to / from) * 0.95;
  const reach = Math.ceil(12 / cut);
  for (let i = 0; i < count; i++) {
    const at = (i * from) / to;
    const middle = Math.floor(at);
    let sum = 0;
    for (let k = Math.max(0, middle - reach + 1); k <= Math.min(samples.length - 1, middle + reach); k++) {
      const d = at - k;
      const x = Math.PI * d * cut;
      const sinc = Math.abs(x) < 1e-9 ? 1 : Math.sin(x) / x;
      sum += (samples[k] as number) * sinc * cut * (0.5 + 0.5 * Math.cos((Math.PI * d) / (reach + 1)));
    }
    out[i] = sum;
  }
  return out;
}
