/**
 * Process that swaps the pictures of a folder; the benchmark holds it on one core. Arguments: the folder with
 * `*.jpg`, and the folder for the output. Prints one line of JSON.
 */
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { encodePicture } from '@semblance/engine-builtin/internal/live-swap/picture-codec';
import { PictureReader } from '@semblance/engine-builtin/internal/live-swap/picture-reader';
import { loadCharacters } from '@semblance/engine-builtin/live-swap/characters';
import { createLiveVideo } from '@semblance/engine-builtin/live-swap/live-video';
import { type LiveVideoStream, RECOMMENDED } from '@semblance/engine-builtin/live-swap/types';

export interface OneCoreFigures {
  /** Pictures per second, one straight after the other, in each round. */
  readonly fps: readonly number[];
  readonly bareFps: readonly number[];
  /** Time of each picture in ms, at 25 pictures per second. */
  readonly paced: readonly number[];
  /** CPU time per picture at that rate in ms, of all threads together. */
  readonly cpuMs: number;
  readonly bareCpuMs: number;
  readonly swapped: number;
  readonly openMs: number;
}

const ROUNDS = 3;

const [from, to] = process.argv.slice(2);
if (!from || !to) throw new Error('which folders?');
const pictures = await Promise.all((await readdir(from)).sort().map((name) => readFile(join(from, name))));
const live = createLiveVideo({
  slots: 1,
  characters: await loadCharacters(),
  onCrash: (error) => {
    throw error;
  },
});
await live.warmUp();
const asked = performance.now();
const stream = await live.open({ look: { kind: 'character', name: 'astronaut' } });
const openMs = performance.now() - asked;
// Only the bare codec is warmed up: the slow first seconds that a caller sees belong to the rounds.
await bare();
const fps: number[] = [];
const bareFps: number[] = [];
for (let round = 0; round < ROUNDS; round++) {
  bareFps.push(pictures.length / (await seconds(bare)));
  fps.push(pictures.length / (await seconds(() => straight(stream))));
}
const before = process.cpuUsage();
const { times, swapped } = await paced(stream);
const cpuMs = cpuSince(before) / pictures.length;
const beforeBare = process.cpuUsage();
await bare();
const bareCpuMs = cpuSince(beforeBare) / pictures.length;
await stream.close();
await live.close();
const figures: OneCoreFigures = { fps, bareFps, paced: times, cpuMs, bareCpuMs, swapped, openMs };
console.log(JSON.stringify(figures));

async function bare(): Promise<void> {
  const reader = new PictureReader();
  for (const picture of pictures) await encodePicture(await reader.read(picture));
}

async function straight(stream: LiveVideoStream): Promise<void> {
  for (const picture of pictures) await stream.transform(picture);
}

/** Sends pictures at the rate of a camera. A late picture begins when the one before is done. */
async function paced(stream: LiveVideoStream): Promise<{ times: number[]; swapped: number }> {
  const times: number[] = [];
  let swapped = 0;
  const start = performance.now();
  for (const [i, picture] of pictures.entries()) {
    const due = start + (i * 1000) / RECOMMENDED.fps;
    await delay(Math.max(0, due - performance.now()));
    const begun = performance.now();
    const done = await stream.transform(picture);
    times.push(performance.now() - begun);
    if (done.swapped) swapped++;
    await writeFile(join(to as string, `${String(i).padStart(4, '0')}.jpg`), done.picture);
  }
  return { times, swapped };
}

async function seconds(work: () => Promise<void>): Promise<number> {
  const start = performance.now();
  await work();
  return (performance.now() - start) / 1000;
}

function cpuSince(before: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}
