import { ByteReader } from '../../../media/byte-reader.ts';
import { startProgram, type Tool } from '../../../media/sandbox.ts';
import { RenderError } from '../../engine.ts';
import { type Phone, soundOfIpa } from './sounds.ts';
import {
  LIMITS,
  type Synthesiser,
  type SynthesiserOptions,
  speechFailure,
  type Utterance,
  WALL_SEC,
} from './synthesiser.ts';
import { ESPEAK_ARGS } from './tools.ts';

const MOST_HEAD = 4 << 20;
/** Samples of one passage: what the script cuts off at, and one more piece. */
const MOST_SAMPLES = 48_000 * 610;

/** espeak-ng tells of a stop when lips or tongue let go; its closure is the silence before. Seconds. */
const STOP_LEAD: Readonly<Record<string, number>> = {
  p: 0.045,
  b: 0.02,
  t: 0.04,
  d: 0.02,
  k: 0.04,
  g: 0.02,
  ch: 0.04,
};
/** After the release of a voiceless stop only breath follows, with the lips on their way. */
const RELEASE = 0.015;

interface Head {
  readonly rate: number;
  readonly samples: number;
  readonly phonemes: readonly (readonly [string, number])[];
}

/** Speaks with espeak-ng: one process for all passages of a voice. */
export function openEspeak(voice: string, options: SynthesiserOptions): Synthesiser {
  const { tools, guard, signal } = options;
  if (!tools.espeak) throw new RenderError('processing_failed', 'espeak-ng is not there any more.');
  const { python } = tools.espeak;
  let started: Promise<{ tool: Tool; reader: ByteReader }> | undefined;
  const start = async () => {
    const tool = await startProgram({
      ...{ file: python, isolate: tools.isolate, guard, signal, feed: true },
      limits: { ...LIMITS, cpuSec: 600 },
      args: [...ESPEAK_ARGS, voice],
    });
    return { tool, reader: new ByteReader(tool.stdout) };
  };
  return {
    async speak(text) {
      started ??= start();
      const { tool, reader } = await started;
      const timer = setTimeout(() => tool.kill(), WALL_SEC * 1000);
      try {
        tool.stdin?.write(`${JSON.stringify(text)}\n`);
        const answer = await readAnswer(reader);
        signal.throwIfAborted();
        if (answer) return answer;
        // Who has closed its output is about to end, and how it does is worth knowing.
        const end = setTimeout(() => tool.kill(), 1_000);
        const exit = await tool.exited;
        clearTimeout(end);
        throw speechFailure('espeak-ng', exit);
      } finally {
        clearTimeout(timer);
      }
    },
    async close() {
      const running = await started?.catch(() => undefined);
      if (!running) return;
      running.tool.kill();
      await running.tool.exited;
      running.tool.stdout.destroy();
    },
  };
}

async function readAnswer(reader: ByteReader): Promise<Utterance | undefined> {
  const bytes: number[] = [];
  for (;;) {
    const byte = await reader.byte();
    if (byte === undefined || bytes.length > MOST_HEAD) return undefined;
    if (byte === 0x0a) break;
    bytes.push(byte);
  }
  const head = JSON.parse(Buffer.from(bytes).toString('utf8')) as Head;
  if (!(head.samples >= 0 && head.samples <= MOST_SAMPLES)) return undefined;
  const samples = new Int16Array(head.samples);
  if (!(await reader.fill(new Uint8Array(samples.buffer)))) return undefined;
  return { sampleRate: head.rate, samples, phones: phonesOf(head) };
}

/** Sounds from the beginnings that espeak-ng tells. Names in brackets say that the language changes. */
export function phonesOf({ rate, samples, phonemes }: Head): Phone[] {
  const events = phonemes
    .filter(([name]) => !name.startsWith('('))
    .map(([name, at]) => ({ sound: soundOfIpa(name), at: at / rate }));
  const seconds = samples / rate;
  const starts = events.map(({ sound, at }, i) => {
    const before = events[i - 1]?.at ?? 0;
    // The sound before a closure keeps half of its time.
    return Math.min(seconds, Math.max((before + at) / 2, at - (STOP_LEAD[sound ?? ''] ?? 0)));
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
