import { setTimeout as sleep } from 'node:timers/promises';
import { subjectOf } from '@semblance/testkit/engine-builtin/motion/drivers';
import { ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { FaceFinder } from '@semblance/vision/face-finder';
import { openSession } from '@semblance/vision/models/session';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { DrawThreads } from './draw-threads.ts';
import { shapeLips } from './lips.ts';
import { drawPortrait, type Portrait, type Pose, portraitData, REST } from './portrait.ts';
import { PortraitVideo } from './portrait-video.ts';
import { preparePortrait } from './prepare.ts';

let portrait: Portrait;
let threads: DrawThreads;

beforeAll(async () => {
  const [blazeface, facemesh] = await Promise.all([openSession('blazeface'), openSession('facemesh')]);
  const { picture, face } = await subjectOf(new FaceFinder({ blazeface, facemesh }), ASTRONAUT, 0, 240);
  portrait = preparePortrait(picture, face);
  threads = new DrawThreads();
});

afterAll(() => threads.close());

/** Returns a pose that rotates, talks and blinks. */
function poseAt(i: number): Pose {
  const open = 0.1 + 0.1 * Math.sin(i);
  return {
    roll: 0.2 * Math.sin(i / 2),
    yaw: 0.3 * Math.cos(i / 3),
    pitch: 0.1,
    dx: 0.05,
    dy: 0,
    scale: 1.05,
    expression: {
      lips: shapeLips(portrait.rig.lips, { open, spread: 0.3, round: 0 }),
      eyes: [0.5, 0.5],
      brows: [0.05, 0, 0.05, 0],
    },
  };
}

describe('a video of a portrait', () => {
  it('has the frames that would be drawn here, in order, however slow its writer is', async () => {
    const times: number[] = [];
    const wrong: number[] = [];
    const told: number[] = [];
    const writer = {
      write: async ({ ptsUs, data }: { ptsUs: number; data: Uint8Array }) => {
        await sleep(times.length % 3 === 0 ? 15 : 0);
        const i = times.push(ptsUs) - 1;
        if (Buffer.compare(data, drawPortrait(portrait, poseAt(i))) !== 0) wrong.push(i);
      },
    };
    const video = new PortraitVideo(portrait, { threads, writer }, (frames) => told.push(frames));
    for (let i = 0; i < 20; i++) {
      await video.add(poseAt(i), i * 40_000);
      // Few frames are held at a time, however many are requested.
      expect(i + 1 - told.length).toBeLessThanOrEqual(threads.count + 1);
    }
    await video.finish();
    video.close();
    expect(times).toEqual(Array.from({ length: 20 }, (_, i) => i * 40_000));
    expect(wrong).toEqual([]);
    expect(told).toEqual(times.map((_, i) => i + 1));
  });

  it('fails with its writer', async () => {
    const writer = { write: () => Promise.reject(new Error('no room')) };
    const video = new PortraitVideo(portrait, { threads, writer }, () => undefined);
    const writing = async () => {
      for (let i = 0; i < 10; i++) await video.add(REST, i);
      await video.finish();
    };
    await expect(writing()).rejects.toThrow('no room');
    video.close();
  });
});

describe('threads that draw', () => {
  it('draw two portraits at a time, each into its own', async () => {
    const other: Portrait = { ...portrait, still: portrait.still.map((value) => 255 - value) };
    const [a, b] = [threads.begin(portraitData(portrait)), threads.begin(portraitData(other))];
    const pose = { ...REST, yaw: 0.2 };
    const frames = await Promise.all([a, b, a, b].map((render) => threads.draw(render, pose, undefined)));
    for (const [i, frame] of frames.entries()) {
      const expected = drawPortrait(i % 2 === 0 ? portrait : other, pose);
      expect(Buffer.compare(frame, expected)).toBe(0);
    }
    threads.end(a);
    threads.end(b);
  });

  it('fail what is asked of a portrait that is no more, and go on', async () => {
    const gone = threads.begin(portraitData(portrait));
    threads.end(gone);
    await expect(threads.draw(gone, REST, undefined)).rejects.toThrow('not being rendered');
    const render = threads.begin(portraitData(portrait));
    expect(await threads.draw(render, REST, undefined)).toHaveLength(portrait.still.length);
    threads.end(render);
  });

  it('that end fail what they had to draw, and others take their places', async () => {
    const own = new DrawThreads();
    const render = own.begin(portraitData(portrait));
    const lost = own.draw(render, REST, undefined);
    const closing = own.close();
    await expect(lost).rejects.toThrow('ended');
    await closing;
    expect(await own.draw(render, REST, undefined)).toHaveLength(portrait.still.length);
    await own.close();
  });
});
