import { setTimeout as delay } from 'node:timers/promises';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { filmed, readPicture } from '@semblance/testkit/live/video/pictures';
import { FaceFinder } from '@semblance/vision/face-finder';
import { FaceRecogniser } from '@semblance/vision/face-recogniser';
import { openSession } from '@semblance/vision/models/session';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { SwapThreads } from '../video-swap/swap-threads.ts';
import { LiveSwaps } from './live-swaps.ts';
import { PictureStream } from './picture-stream.ts';
import { readSource } from './source-picture.ts';

/** Longer than the interval of searches for others, shorter than a pause, in ms. */
const STEP_MS = 450;

let finder: FaceFinder;
let recogniser: FaceRecogniser;
let beside: SwapThreads;
let picture: Buffer;
let stream: PictureStream;
let nowMs: number;
/** Result of the search for others, and the sums of all searched pixels, also at the beginning. */
let others: () => Promise<boolean>;
let searched: number[];

beforeAll(async () => {
  const [blazeface, facemesh, faceres] = await Promise.all([
    openSession('blazeface'),
    openSession('facemesh'),
    openSession('faceres'),
  ]);
  finder = new FaceFinder({ blazeface, facemesh });
  recogniser = new FaceRecogniser(faceres);
  beside = new SwapThreads(1);
  picture = await filmed(await readPicture(ADMIRAL), { x: 255, y: 190, zoom: 1 });
});
afterAll(() => beside.close());

beforeEach(async () => {
  nowMs = 0;
  others = async () => false;
  searched = [];
  const watched: Pick<FaceFinder, 'seesOthers' | 'lookUpright' | 'followFrom' | 'coverOf'> = {
    followFrom: (...args) => finder.followFrom(...args),
    coverOf: (...args) => finder.coverOf(...args),
    lookUpright: (...args) => {
      searched.push(sum(args[0].data));
      return finder.lookUpright(...args);
    },
    seesOthers: ({ data }) => {
      searched.push(sum(data));
      return others();
    },
  };
  const source = await readSource(ASTRONAUT, finder);
  const swaps = new LiveSwaps(source, beside, watched);
  stream = new PictureStream({ finder: watched as FaceFinder, recogniser: async () => recogniser, swaps });
});

function sum(data: Iterable<number>): number {
  let total = 0;
  for (const value of data) total += value;
  return total;
}

async function send() {
  nowMs += STEP_MS;
  return stream.transform(picture, nowMs);
}

/** Sends pictures until others are searched, which begins after a picture has been sent. */
async function untilSearching() {
  for (let i = 0; i < 4; i++) {
    expect(await send()).toMatchObject({ faces: 1, swapped: true });
    const before = searched.length;
    stream.finish();
    if (searched.length > before) return;
  }
  throw new Error('others were never looked for');
}

/** Checks that the work does not end before the running search for others. */
async function waitsForSearch(work: () => Promise<unknown>): Promise<void> {
  const search = Promise.withResolvers<boolean>();
  others = () => search.promise;
  await untilSearching();
  let done = false;
  const working = work().then(() => {
    done = true;
  });
  await delay(500);
  expect(done).toBe(false);
  search.resolve(false);
  await working;
}

it('a picture does not wait for the search for others; the next one does, and so does the end', async () => {
  await waitsForSearch(send);
  stream.finish();
  await waitsForSearch(() => stream.close());
});

it('fails one picture where the search failed, and goes on', async () => {
  others = () => Promise.reject(new Error('no memory'));
  await untilSearching();
  await expect(send()).rejects.toThrow('no memory');
  expect(await send()).toMatchObject({ swapped: true });
  await stream.close();
});

it('looks for others in what came, without the new face', async () => {
  await untilSearching();
  await stream.close();
  const [first, ...later] = searched;
  expect(later.length).toBeGreaterThan(0);
  expect(new Set(later)).toEqual(new Set([first]));
});
