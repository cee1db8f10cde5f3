import { randomBytes } from 'node:crypto';
import { readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { RenderError } from '@semblance/engine-api/engine';
import { startProgram } from '@semblance/media/sandbox';
import { toAscii } from './ascii.ts';
import { cutQuestions } from './questions.ts';
import { raiseEnd } from './rise.ts';
import { type Phone, soundOfArpabet } from './sounds.ts';
import {
  joined,
  LIMITS,
  type Synthesiser,
  type SynthesiserOptions,
  speechFailure,
  type Utterance,
  WALL_SEC,
} from './synthesiser.ts';

/** Longest output; no passage's report of sounds is as long. */
const MAX_OUTPUT = 1 << 20;

/**
 * Creates a speaker of English with flite: one process per passage, with the text in a file.
 * @param voice flite's name
 * @param stretch factor on all durations; default: the voice's own
 */
export function openFlite(
  voice: string,
  options: SynthesiserOptions,
  { stretch }: { readonly stretch?: number } = {},
): Synthesiser {
  const { tools, guard, signal, directory } = options;
  if (!tools.flite) throw new RenderError('processing_failed', 'flite is not there any more.');
  const { file } = tools.flite;
  const manner = stretch === undefined ? [] : ['--setf', `duration_stretch=${stretch}`];
  const run = async (args: readonly string[], script: string, wav: string): Promise<string> => {
    const tool = await startProgram({
      ...{ file, args, guard, signal, limits: LIMITS, isolation: tools.isolation },
      ...{ read: [script], write: [wav] },
    });
    const timer = setTimeout(() => tool.kill(), WALL_SEC * 1000);
    try {
      let output = '';
      tool.stdout.setEncoding('utf8');
      for await (const piece of tool.stdout) {
        output += piece;
        if (output.length > MAX_OUTPUT) tool.kill();
      }
      const exit = await tool.exited;
      signal.throwIfAborted();
      if (exit.code !== 0) throw speechFailure('flite', exit);
      return output;
    } finally {
      clearTimeout(timer);
      tool.kill();
      await tool.exited;
    }
  };
  const speakPiece = async (text: string): Promise<Utterance> => {
    const stem = join(directory, `.flite-${randomBytes(6).toString('hex')}`);
    const [script, wav] = [`${stem}.txt`, `${stem}.wav`];
    for (const path of [script, wav]) await guard.removeOnDeath(path);
    try {
      await writeFile(script, `${text}\n`, { mode: 0o600 });
      const output = await run(['-voice', voice, ...manner, '-psdur', '-f', script, '-o', wav], script, wav);
      return utterance(output, await readFile(wav));
    } finally {
      for (const path of [script, wav]) {
        await rm(path, { force: true });
        await guard.keep(path);
      }
    }
  };
  return {
    async speak(text) {
      const spoken: Utterance[] = [];
      for (const piece of cutQuestions(toAscii(text))) {
        const one = await speakPiece(piece.text);
        // Its voices speak every sentence as a statement.
        if (piece.rises) raiseEnd(one.samples, one.sampleRate);
        spoken.push(one);
      }
      return joined(spoken);
    },
    close: async () => {},
  };
}

/** Reads a WAV file of 16 bits, mono. */
function utterance(said: string, wav: Buffer): Utterance {
  const sampleRate = wav.length >= 44 ? wav.readUInt32LE(24) : 0;
  const data = wav.indexOf('data');
  if (sampleRate < 8_000 || data < 0) throw new RenderError('processing_failed', 'flite spoke nothing.');
  const at = data + 8;
  const samples = new Int16Array((wav.length - at) >> 1);
  for (let i = 0; i < samples.length; i++) samples[i] = wav.readInt16LE(at + 2 * i);
  return { sampleRate, samples, phones: readDurations(said, samples.length / sampleRate) };
}

/**
 * Reads `name:end` of each sound; every sound begins at the end of the one before.
 * @param seconds length of the sound, because diphone voices end in the middle of the last reported silence
 */
export function readDurations(said: string, seconds: number): Phone[] {
  const lines = said
    .split('\n')
    .map((line) =>
      [...line.matchAll(/([a-z]+):([\d.]+)/g)].map(([, name = '', end]) => ({ name, end: Number(end) })),
    )
    .filter((line) => line.length > 0);
  const spoken = lines.reduce((sum, line) => sum + (line.at(-1)?.end ?? 0), 0);
  const cut = Math.max(0, spoken - seconds) / Math.max(1, lines.length);
  const phones: Phone[] = [];
  let base = 0;
  for (const line of lines) {
    let start = base;
    const last = base + (line.at(-1)?.end ?? 0) - cut;
    for (const { name, end } of line) {
      const until = Math.max(start, Math.min(base + end, last));
      phones.push({ sound: soundOfArpabet(name), start, end: until });
      start = until;
    }
    base = start;
  }
  return phones;
}
