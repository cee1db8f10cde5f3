import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { text } from 'node:stream/consumers';
import { type BenchContext, figure, limitRow, quantile, type Row, type Section } from '../lib/section.ts';
import type { OneHourFigures, SpeechDelay } from './one-hour.ts';

/**
 * Without these flags, V8 at some moment enlarges the space for young objects by 8 to 11 MB, which is not the
 * converter's memory.
 */
const STEADY_HEAP = ['--min-semi-space-size=16', '--max-semi-space-size=16'];

/** Checks that a live conversion has the same delay, memory and speed after an hour as at the beginning. */
export async function runVoiceHourBench({ say }: Pick<BenchContext, 'say'>): Promise<Section> {
  const figures = await oneHour(say);
  const { voice, minutes, clicks } = figures;
  return {
    title: 'Live voice for an hour',
    rows: rowsOf(figures),
    notes: [
      `${minutes} minutes at 48 kHz in chunks of 20 ms through one converter to ${voice}, as fast as it goes, in a process of its own: sentences in an irregular order, pauses of irregular length, and in each pause a click at an irregular moment (${clicks} of them).`,
      'Speech is as late as its level is most like that of the input; compared are the medians of each sentence by itself; one utterance differs from the next by more, as the peer column says. Memory is taken after a collection, in a heap whose room for young objects has a fixed size; processor time is that of the process without the search for delays.',
    ],
  };
}

/** @throws Error when the process fails */
async function oneHour(say: BenchContext['say']): Promise<OneHourFigures> {
  const child = spawn(process.execPath, [...STEADY_HEAP, join(import.meta.dirname, 'one-hour.ts')], {
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  createInterface(child.stderr).on('line', (line) => say(`voice: ${line}`));
  const [out, [code]] = await Promise.all([text(child.stdout), once(child, 'exit')]);
  if (code !== 0) throw new Error(`the process of the converter ended with ${code}`);
  return JSON.parse(out) as OneHourFigures;
}

function rowsOf(figures: OneHourFigures): Row[] {
  const { taken, given, least, most, firstClicks, lastClicks, memory, inUse, cpu } = figures;
  const { most: moved, spread } = movement(figures.firstSpeech, figures.lastSpeech);
  const range = (all: readonly number[]) => `${figure(Math.min(...all))} to ${figure(Math.max(...all))} ms`;
  const growth = (of: readonly number[]) => (of.at(-1) ?? 0) - (of[0] ?? 0);
  // Both values cover the same time.
  const beginning = cpu[1] ?? 0;
  const end = (cpu.at(-1) ?? 0) - (cpu.at(-3) ?? 0);
  return [
    row('delay of clicks in the first minute, and in the last', {
      ours: `${range(firstClicks)}, ${range(lastClicks)}`,
    }),
    row('most that two of all clicks differ by', {
      ours: `${figure(most - least)} ms`,
      goal: '< 1 ms',
      met: most - least < 1,
    }),
    row('most that a sentence moved from the first ten minutes to the last ten', {
      ours: `${figure(moved)} ms`,
      peer: `${figure(spread)} ms (middle 80 % of one sentence in ten minutes)`,
      goal: '< 1 ms',
      met: moved < 1,
    }),
    row('samples out', {
      ours: given.toLocaleString('en-US'),
      peer: `${taken.toLocaleString('en-US')} (in)`,
      goal: 'as many',
      met: given === taken,
    }),
    limitRow({
      name: 'growth of resident memory from minute 5 to the end',
      unit: 'MB',
      ours: growth(memory),
      limit: 4,
    }),
    limitRow({
      name: 'growth of memory in use',
      unit: 'MB',
      ours: growth(inUse),
      limit: 1,
    }),
    row('processor time of the last ten minutes', {
      ours: `${figure(end)} s`,
      peer: `${figure(beginning)} s (the first ten)`,
      ratio: (end / beginning).toFixed(2),
      goal: '≤ 1.1',
      met: end / beginning <= 1.1,
    }),
  ];
}

/** Returns the largest shift of a sentence's median delay, and the widest spread of delays of one sentence, in ms. */
function movement(first: readonly SpeechDelay[], last: readonly SpeechDelay[]) {
  const of = (speech: readonly SpeechDelay[], wanted: number) =>
    speech.filter(({ sentence }) => sentence === wanted).map(({ delay }) => delay);
  let [most, spread] = [0, 0];
  for (const sentence of new Set(first.map((one) => one.sentence))) {
    const [before, after] = [of(first, sentence), of(last, sentence)];
    most = Math.max(most, Math.abs(quantile(after, 0.5) - quantile(before, 0.5)));
    for (const part of [before, after]) spread = Math.max(spread, quantile(part, 0.9) - quantile(part, 0.1));
  }
  return { most, spread };
}

function row(
  name: string,
  {
    ours,
    peer = '',
    ratio = '',
    goal = '',
    met,
  }: { ours: string; peer?: string; ratio?: string; goal?: string; met?: boolean },
): Row {
  return { name, ours, peer, ratio, goal, met: met === undefined ? '' : met ? 'met' : 'not met' };
}
