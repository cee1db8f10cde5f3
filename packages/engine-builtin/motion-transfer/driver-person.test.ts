/** @module-tag ffmpeg */
import { execFile } from 'node:child_process';
import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Engine } from '@semblance/engine-api/engine';
import type { FaceMapping, FoundPeople } from '@semblance/engine-api/people';
import { GROUP } from '@semblance/testkit/engine-builtin/group';
import { subjectOf, writeDriver } from '@semblance/testkit/engine-builtin/motion/drivers';
import { correlation, measureVideo } from '@semblance/testkit/engine-builtin/motion/series';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { type MediaRig, openMediaRig } from '@semblance/testkit/media/clips';
import { FaceFinder } from '@semblance/vision/face-finder';
import { FaceRecogniser } from '@semblance/vision/face-recogniser';
import { openSession } from '@semblance/vision/models/session';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createBuiltinEngine } from '../index.ts';
import { onePersonOf } from '../people/mapping.ts';
import { FaceTracker } from './face-tracker.ts';

let rig: MediaRig;
let engine: Engine;
let finder: FaceFinder;
let alone: string[];
/** The two beside each other, and with a cut at which they change their sides. */
let beside: string;
let both: string;
let found: FoundPeople;

async function people(inputs: Record<string, string>): Promise<FoundPeople> {
  const asked = { capability: 'motion-control', parameters: {}, people: true, signal: rig.signal } as const;
  return (await engine.inspect?.({ ...asked, inputs }))?.people as FoundPeople;
}

beforeAll(async () => {
  rig = await openMediaRig();
  engine = createBuiltinEngine({ threads: 1 });
  await engine.warmUp(rig.signal);
  const [blazeface, facemesh] = await Promise.all([openSession('blazeface'), openSession('facemesh')]);
  finder = new FaceFinder({ blazeface, facemesh });
  alone = [rig.path('first.mp4'), rig.path('second.mp4')];
  // The first leans and turns while the second talks, and the other way round.
  const from = [0.6, 5.6] as const;
  for (const [i, file] of [ADMIRAL, ASTRONAUT].entries()) {
    const subject = await subjectOf(finder, file, 0, 400);
    await writeDriver(rig.media, subject, 'animator', {
      path: alone[i] as string,
      frameRate: 20,
      seconds: 2,
      at: (t) => (from[i] as number) + 1.4 * t,
    });
  }
  [beside, both] = [rig.path('beside.mp4'), rig.path('both.mp4')];
  const sides =
    '[0]trim=0:1[a];[1]trim=0:1[b];[0]trim=1:2,setpts=PTS-STARTPTS[c];[1]trim=1:2,setpts=PTS-STARTPTS[d]';
  const inputs = alone.flatMap((path) => ['-i', path]);
  for (const [path, graph] of [
    [beside, '[0][1]hstack'],
    [both, `${sides};[a][b]hstack[e];[d][c]hstack[f];[e][f]concat=n=2`],
  ] as const) {
    const encoded = ['-c:v', 'libx264', '-crf', '14', '-pix_fmt', 'yuv420p', path];
    await promisify(execFile)('ffmpeg', ['-v', 'error', ...inputs, '-filter_complex', graph, ...encoded]);
  }
  found = await people({ video: both });
}, 120_000);
afterAll(async () => {
  await engine.close();
  await rig.close();
});

const transfer = async (mapping: FaceMapping) =>
  engine.render({
    capability: 'motion-control',
    inputs: { image: ASTRONAUT, motion_video: beside },
    parameters: { faces: JSON.stringify(mapping) },
    outputDir: await mkdtemp(join(rig.dir, 'out-')),
    signal: rig.signal,
    onProgress: () => undefined,
  });

const naming = (driver: number): FaceMapping => ({
  people: found.people.map(({ box, look }, place) => ({
    id: `face-${place}`,
    box,
    look,
    ...(place === driver && { input: 'image' }),
  })),
});

describe('the driver of Motion Transfer, of two people', () => {
  it('is the person who is named', async () => {
    expect(found.people).toHaveLength(2);
    const own = await Promise.all(alone.map((path) => measureVideo(rig.media, finder, path)));
    const [leaning, talking] = own as [(typeof own)[number], (typeof own)[number]];
    const followed: number[] = [];
    for (const driver of [0, 1]) {
      const { outputPath, findings } = await transfer(naming(driver));
      const seen = await measureVideo(rig.media, finder, outputPath);
      const [lean, talk] = [
        correlation(leaning.roll, seen.roll),
        correlation(talking.aperture, seen.aperture),
      ];
      expect(Math.max(lean, talk)).toBeGreaterThan(0.85);
      expect(Math.min(lean, talk)).toBeLessThan(0.6);
      followed.push(lean > talk ? 0 : 1);
      expect(findings?.mapped).toEqual(
        [0, 1].map((place) => ({
          id: `face-${place}`,
          ...(place === driver && { input: 'image' }),
          frames: place === driver ? 40 : 0,
        })),
      );
    }
    expect(followed.sort()).toEqual([0, 1]);
  }, 120_000);

  it('is followed in every frame across a cut at which both change their sides', async () => {
    const network = await openSession('faceres');
    const info = await rig.media.probe(both, 'video', rig.signal);
    for (const [place, { box, atUs }] of found.people.entries()) {
      const work = {
        capability: 'motion-control',
        inputs: { image: ASTRONAUT },
        parameters: { faces: JSON.stringify(naming(place)) },
      } as const;
      const tools = { recogniser: async () => new FaceRecogniser(network), checkpoint: () => undefined };
      const { person } = onePersonOf(work, tools) ?? {};
      const tracker = new FaceTracker(finder, () => undefined, 'once', person);
      const begins = box.x + box.width / 2 < 0.5 === atUs < 1_000_000 ? 'left' : 'right';
      const sides: (string | undefined)[] = [];
      for await (const frame of rig.media.decodeVideo(both, info, { signal: rig.signal })) {
        const face = await tracker.track(frame);
        sides.push(face && ((face.points[12] as number) < frame.width / 2 ? 'left' : 'right'));
      }
      const other = begins === 'left' ? 'right' : 'left';
      expect(sides).toEqual([...Array(20).fill(begins), ...Array(20).fill(other)]);
    }
  }, 60_000);

  it('who is not there is told to be not there', async () => {
    const stranger = (await people({ image: GROUP })).people[0];
    if (!stranger) throw new Error('nobody was found');
    const { box, look } = stranger;
    await expect(
      transfer({ people: [...naming(-1).people, { id: 'face-9', box, look, input: 'image' }] }),
    ).rejects.toMatchObject({
      code: 'face_not_detected',
      message: 'The person of face_id was not found in the motion video (motion_video_key).',
    });
  }, 60_000);
});
