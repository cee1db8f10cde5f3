/**
 * Process that puts an hour of sound through one converter and does nothing else, so that its memory and CPU time
 * are the converter's. Reports progress on stderr, and prints one line of JSON. Argument: minutes (default 60).
 */
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { loadVoices } from '@semblance/common/voices/load-voices';
import { RATE } from '@semblance/testkit/voice/sounds';
import { createVoiceConverter } from '@semblance/voice/converter';
import { type Turn, turns } from './hour-sound.ts';

/** Delay of the speech in a turn, found by its level, in ms. The delay differs slightly between sentences. */
export interface SpeechDelay {
  readonly sentence: number;
  readonly delay: number;
}

export interface OneHourFigures {
  readonly voice: string;
  readonly minutes: number;
  readonly taken: number;
  readonly given: number;
  readonly clicks: number;
  /** Least delay of a click over the whole time, in ms; `most` is the largest. */
  readonly least: number;
  readonly most: number;
  /** Delays of clicks in the first minute, in ms; `lastClicks` are those of the last minute. */
  readonly firstClicks: readonly number[];
  readonly lastClicks: readonly number[];
  /** Delays of speech in the first ten minutes; `lastSpeech` are those of the last ten. */
  readonly firstSpeech: readonly SpeechDelay[];
  readonly lastSpeech: readonly SpeechDelay[];
  /** Resident memory at the end of each fifth minute, after a garbage collection, in MB. */
  readonly memory: readonly number[];
  /** Referenced bytes at the same times, buffers included, in MB. */
  readonly inUse: readonly number[];
  /** CPU time at the end of each fifth minute, in seconds. */
  readonly cpu: readonly number[];
}

const VOICE = 'clear-soprano';
/** Samples in a chunk of 20 ms. */
const CHUNK = RATE / 50;
const MINUTE = 60 * RATE;
const SAID_EVERY = 5;
/** Largest distance, in samples, at which a sound is searched around its expected position. */
const REACH = 0.03 * RATE;
const MS = RATE / 1000;
/** Window of a level: 10 ms, in samples. `QUIET` is the level that is hardly heard. */
const WINDOW = 10 * MS;
const QUIET = 300;

setFlagsFromString('--expose-gc');
const gc = runInNewContext('gc') as () => void;

const minutes = Number(process.argv[2] ?? 60);
const voice = (await loadVoices()).get(VOICE);
if (!voice) throw new Error(`no voice ${VOICE}`);
const next = await turns();
const converter = createVoiceConverter({ sampleRate: RATE, voice });
const latency = converter.latencySamples;
/** Output of the turn before and of the present one, from the first sample of the former. */
const made = new Int16Array(30 * RATE);
let held = 0;
const chunk = new Int16Array(CHUNK);
/** Levels of a sentence, 10 s at most. Allocated once, so that any growth of memory is the converter's. */
const levelsIn = new Float64Array(1_000);
const levelsOut = new Float64Array(1_000);
let inChunk = 0;
let [taken, given, clicks] = [0, 0, 0];
let [least, most] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
const firstClicks: number[] = [];
const lastClicks: number[] = [];
const firstSpeech: SpeechDelay[] = [];
const lastSpeech: SpeechDelay[] = [];
const memory: number[] = [];
const inUse: number[] = [];
const cpu: number[] = [];
const began = process.cpuUsage();
/** CPU time of the search for delays, in seconds; it does not count as the converter's. */
let lookedSec = 0;

let before: Turn | undefined;
let beforeAt = 0;
for (let at = 0; taken < minutes * MINUTE; ) {
  const turn = next();
  for (const sample of turn.samples) {
    chunk[inChunk++] = sample;
    if (inChunk === CHUNK) push();
  }
  if (before) {
    const start = process.cpuUsage();
    look(before, beforeAt);
    lookedSec += seconds(start);
    made.copyWithin(0, before.samples.length, held);
    held -= before.samples.length;
  }
  [before, beforeAt] = [turn, at];
  at += turn.samples.length;
}

const figures: OneHourFigures = {
  voice: VOICE,
  minutes,
  taken,
  given,
  clicks,
  least,
  most,
  memory,
  inUse,
  cpu,
  firstClicks,
  lastClicks,
  firstSpeech,
  lastSpeech,
};
console.log(JSON.stringify(figures));

function push(): void {
  const out = converter.push(chunk);
  made.set(out, held);
  held += out.length;
  inChunk = 0;
  taken += chunk.length;
  given += out.length;
  if (taken % (SAID_EVERY * MINUTE) === 0) say();
}

function say(): void {
  cpu.push(seconds(began) - lookedSec);
  gc();
  const { rss, heapUsed, external } = process.memoryUsage();
  memory.push(rss / 1e6);
  inUse.push((heapUsed + external) / 1e6);
  const delays = `clicks ${least.toFixed(2)} to ${most.toFixed(2)} ms late`;
  process.stderr.write(
    `${taken / MINUTE} of ${minutes} minutes: ${delays}, ${memory.at(-1)?.toFixed(1)} MB, ${inUse.at(-1)?.toFixed(2)} in use, ${cpu.at(-1)?.toFixed(1)} s of CPU\n`,
  );
}

function seconds(since: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(since);
  return (user + system) / 1e6;
}

/** Finds a turn in `made`, where it lies at the beginning, and records its delays. */
function look(turn: Turn, at: number): void {
  const from = turn.click + latency - REACH;
  let best = from;
  for (let i = from; i <= from + 2 * REACH; i++)
    if (Math.abs(made[i] ?? 0) > Math.abs(made[best] ?? 0)) best = i;
  const delay = (best - turn.click) / MS;
  clicks++;
  least = Math.min(least, delay);
  most = Math.max(most, delay);
  const end = at + turn.samples.length;
  if (end <= MINUTE) firstClicks.push(delay);
  if (at >= (minutes - 1) * MINUTE) lastClicks.push(delay);
  const [early, late] = [end <= 10 * MINUTE, at >= (minutes - 10) * MINUTE];
  if (!early && !late) return;
  const speech = { sentence: turn.sentence, delay: speechDelay(turn) };
  if (early) firstSpeech.push(speech);
  if (late) lastSpeech.push(speech);
}

/** Returns the delay in ms, to a tenth, at which the levels of the output correlate best with those of the input. */
function speechDelay({ samples, said }: Turn): number {
  const count = Math.floor(said / WINDOW);
  levels(samples, 0, count, levelsIn);
  let [best, bestAt] = [Number.NEGATIVE_INFINITY, 0];
  for (let shift = latency - REACH / 3; shift <= latency + REACH / 3; shift += MS / 10) {
    levels(made, Math.round(shift), count, levelsOut);
    const like = correlation(levelsIn, levelsOut, count);
    if (like > best) [best, bestAt] = [like, shift];
  }
  return bestAt / MS;
}

function levels(of: Int16Array, from: number, count: number, into: Float64Array): void {
  for (let k = 0; k < count; k++) {
    let power = WINDOW * QUIET ** 2;
    for (let i = from + k * WINDOW; i < from + (k + 1) * WINDOW; i++) power += (of[i] ?? 0) ** 2;
    into[k] = Math.log10(power);
  }
}

function correlation(a: Float64Array, b: Float64Array, count: number): number {
  let [sumA, sumB, ab, aa, bb] = [0, 0, 0, 0, 0];
  for (let i = 0; i < count; i++) {
    const [x, y] = [a[i] as number, b[i] as number];
    sumA += x;
    sumB += y;
    ab += x * y;
    aa += x * x;
    bb += y * y;
  }
  const own = Math.sqrt((aa - sumA ** 2 / count) * (bb - sumB ** 2 / count));
  return (ab - (sumA * sumB) / count) / own;
}
