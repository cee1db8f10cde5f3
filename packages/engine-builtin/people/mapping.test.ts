/** @module-tag ffmpeg */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Engine, RenderResult } from '@semblance/engine-api/engine';
import { type FaceMapping, type FoundPeople, mappedRole } from '@semblance/engine-api/people';
import type { Picture } from '@semblance/engine-api/picture';
import { regionToRgb } from '@semblance/media/yuv';
import { cutPortraits, GROUP, openEyes } from '@semblance/testkit/engine-builtin/group';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import {
  COLOR,
  cropOf,
  makeClip,
  readPicture,
  type View,
} from '@semblance/testkit/engine-builtin/video-swap/clips';
import { type MediaRig, openMediaRig } from '@semblance/testkit/media/clips';
import { centroid, type Face } from '@semblance/vision/face-mesh';
import { sameness } from '@semblance/vision/face-recogniser';
import { FACE_OVAL } from '@semblance/vision/face-regions';
import { toCrop } from '@semblance/vision/picture';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createBuiltinEngine } from '../index.ts';

const SIZE = { width: 960, height: 700 };
/** The group, then its mirror image from nearer, then the group again. */
const WIDE = (i: number): View => ({ x: 960 + 3 * Math.sin(i / 4), y: 699, zoom: 0.5 });
const NEAR = (i: number): View => ({
  x: 900 + 4 * Math.cos(i / 5),
  y: 640,
  zoom: 0.56,
  turn: 0.03 * Math.sin(i / 6),
});
const SCENES: readonly { frames: number; view: (frame: number) => View; mirrored: boolean }[] = [
  { frames: 18, view: WIDE, mirrored: false },
  { frames: 22, view: NEAR, mirrored: true },
  { frames: 12, view: WIDE, mirrored: false },
];

let rig: MediaRig;
let engine: Engine;
let dir: string;
let eyes: Awaited<ReturnType<typeof openEyes>>;
let group: Picture;
let sources: string[];
let looks: Float32Array[];
const signal = AbortSignal.timeout(500_000);

beforeAll(async () => {
  rig = await openMediaRig();
  dir = await mkdtemp(join(tmpdir(), 'semblance-mapping-'));
  engine = createBuiltinEngine({ threads: 1 });
  await engine.warmUp(signal);
  eyes = await openEyes();
  group = await readPicture(GROUP);
  sources = [ASTRONAUT, ADMIRAL, ...(await cutPortraits((name) => join(dir, name)))];
  looks = [];
  for (const path of sources) {
    const picture = await readPicture(path);
    looks.push(await eyes.describe(picture, (await eyes.find(picture))[0] as Face));
  }
}, 200_000);
afterAll(async () => {
  await engine.close();
  await rig.close();
  await rm(dir, { recursive: true, force: true });
});

async function people(inputs: Record<string, string>): Promise<FoundPeople> {
  const asked = { capability: 'face-swap', parameters: {}, people: true, signal } as const;
  const found = (await engine.inspect?.({ ...asked, inputs }))?.people;
  if (!found) throw new Error('no people were told');
  return found;
}

/** Returns the work of a swap with the first sources for some of the people, by their places. */
function work(
  capability: 'face-swap' | 'face-swap-image',
  base: Record<string, string>,
  found: FoundPeople['people'],
  given: readonly number[],
  others?: string,
) {
  const mapping: FaceMapping = {
    people: found.map(({ box, look }, place) => {
      const at = given.indexOf(place);
      return { id: `face-${place}`, box, look, ...(at >= 0 && { input: mappedRole(at) }) };
    }),
    ...(others !== undefined && { others: 'face' }),
  };
  const pictures = given.map((_, at) => [mappedRole(at), sources[at] as string]);
  return {
    capability,
    inputs: { ...base, face: others ?? (sources[0] as string), ...Object.fromEntries(pictures) },
    parameters: { faces: JSON.stringify(mapping) },
  };
}

/** Returns the preview of a swap, enlarged to the size of the clip. */
async function previewOf(
  base: Record<string, string>,
  { people: found }: FoundPeople,
  given: readonly number[],
  atUs: number,
): Promise<Picture> {
  const asked = { ...work('face-swap', base, found, given), preview: { atUs }, signal };
  const { preview } = (await engine.inspect?.(asked)) ?? {};
  if (preview === undefined) throw new Error('there is no preview');
  const jpeg = Buffer.from(preview, 'base64');
  expect((await sharp(jpeg).metadata()).width).toBe(512);
  const path = join(dir, `preview-${atUs}.png`);
  await sharp(jpeg).resize(SIZE.width, SIZE.height, { fit: 'fill' }).png().toFile(path);
  return readPicture(path);
}

/** Swaps with the first sources for some of the people, by their places. */
async function swap(
  capability: 'face-swap' | 'face-swap-image',
  base: Record<string, string>,
  { people: found }: FoundPeople,
  given: readonly number[],
  others?: string,
): Promise<RenderResult> {
  return engine.render({
    ...work(capability, base, found, given, others),
    outputDir: await mkdtemp(join(dir, 'out-')),
    signal,
    onProgress: () => undefined,
  });
}

const middle = (face: Face) => centroid(face.points, FACE_OVAL);
const inGroup = ({ box }: FoundPeople['people'][number]) => ({
  x: (box.x + box.width / 2) * group.width,
  y: (box.y + box.height / 2) * group.height,
});

/** Returns how much more a face is like each source than it was before. */
const gains = (look: Float32Array, before: Float32Array): number[] =>
  looks.map((source) => sameness(source, look) - sameness(source, before));
const mostOf = (values: readonly number[]) => values.indexOf(Math.max(...values));

describe('a mapping in a picture of five', () => {
  it('gives each the face that was named, and leaves the others as they are', async () => {
    const found = await people({ image: GROUP });
    expect(found.people).toHaveLength(5);
    const given = [3, 0, 4, 1];
    const { outputPath, findings } = await swap('face-swap-image', { image: GROUP }, found, given);
    const out = await readPicture(outputPath);
    const faces = await eyes.find(out);
    for (const [place, person] of found.people.entries()) {
      const at = inGroup(person);
      const face = faces.find(
        (one) => Math.hypot(middle(one).x - at.x, middle(one).y - at.y) < one.width / 2,
      );
      const look = await eyes.describe(out, face as Face);
      const before = await eyes.describe(group, face as Face);
      if (given.includes(place)) expect(mostOf(gains(look, before))).toBe(given.indexOf(place));
      else expect(sameness(look, before)).toBeGreaterThan(0.97);
    }
    expect(findings?.faces).toEqual({ found: 5, changed: 4, left: [{ reason: 'bystander', count: 1 }] });
    expect(findings?.mapped).toEqual(
      found.people.map((_, place) => {
        const at = given.indexOf(place);
        return { id: `face-${place}`, ...(at >= 0 && { input: mappedRole(at) }), frames: at >= 0 ? 1 : 0 };
      }),
    );
  });

  it('and with a face for everybody else, they get that one', async () => {
    const found = await people({ image: GROUP });
    const { findings } = await swap('face-swap-image', { image: GROUP }, found, [2], ADMIRAL);
    expect(findings?.mapped?.map(({ input }) => input)).toEqual(
      [0, 1, 2, 3, 4].map((place) => (place === 2 ? 'face_of_1' : 'face')),
    );
  });
});

describe('a mapping in a clip of five with cuts', () => {
  it('holds in every frame', async () => {
    const path = rig.path('group.mp4');
    const mirror = await mirrorOf(GROUP);
    const scenes = SCENES.map(({ mirrored, ...scene }) => ({ ...scene, picture: mirrored ? mirror : group }));
    await makeClip(rig.media, { path, ...SIZE, scenes });
    const found = await people({ video: path });
    expect(found.people).toHaveLength(5);
    const stills = await people({ image: GROUP });
    // The same people, by where they are in the photograph.
    const places = found.people.map(({ box, atUs }) => {
      const frame = Math.round(atUs / 40_000);
      const at = { x: (box.x + box.width / 2) * SIZE.width, y: (box.y + box.height / 2) * SIZE.height };
      const far = stills.people.map((still) => {
        const there = inFrame(still, frame);
        return Math.hypot(there.x - at.x, there.y - at.y);
      });
      return far.indexOf(Math.min(...far));
    });
    expect([...places].sort()).toEqual([0, 1, 2, 3, 4]);
    const given = [4, 1, 0];
    const { outputPath, findings } = await swap('face-swap', { video: path }, found, given);
    const [before, after] = await Promise.all([framesOf(path), framesOf(outputPath)]);
    expect(after).toHaveLength(before.length);
    const seen = new Map<number, number>();
    const wrong: string[] = [];
    for (const [i, picture] of before.entries()) {
      const out = after[i] as Picture;
      for (const face of await eyes.find(picture)) {
        const person = personAt(face, i, stills);
        const place = places.indexOf(person);
        if (place < 0) continue;
        seen.set(place, (seen.get(place) ?? 0) + 1);
        const look = await eyes.describe(out, face);
        const was = await eyes.describe(picture, face);
        const own = sameness(look, was);
        const gained = gains(look, was);
        const to = given.indexOf(place);
        if (to < 0 ? own < 0.95 : mostOf(gained) !== to || own > 0.9)
          wrong.push(
            `frame ${i} person ${place}: ${own.toFixed(2)} ${gained.map((n) => n.toFixed(2))} to ${to}`,
          );
      }
    }
    expect(wrong).toEqual([]);
    for (const [place, frames] of seen) if (given.includes(place)) expect(frames).toBeGreaterThan(25);
    expect(findings?.mapped).toHaveLength(5);
    // A preview knows them too, in the group and in its mirror image.
    for (const i of [6, 30]) {
      const shown = await previewOf({ video: path }, found, given, i * 40_000);
      const picture = before[i] as Picture;
      let changed = 0;
      for (const face of await eyes.find(picture)) {
        const place = places.indexOf(personAt(face, i, stills));
        if (place < 0) continue;
        const was = await eyes.describe(picture, face);
        const look = await eyes.describe(shown, face);
        const to = given.indexOf(place);
        if (to < 0) expect(sameness(look, was), `frame ${i} person ${place}`).toBeGreaterThan(0.8);
        else expect(mostOf(gains(look, was)), `frame ${i} person ${place}`).toBe(to);
        if (to >= 0) changed++;
      }
      expect(changed).toBe(3);
    }
  }, 300_000);
});

async function mirrorOf(file: string): Promise<Picture> {
  const path = join(dir, 'mirror.png');
  await sharp(file).flop().png().toFile(path);
  return readPicture(path);
}

/** Returns where a person of the photograph is in a frame. */
function inFrame(person: FoundPeople['people'][number], frame: number) {
  let first = 0;
  for (const { frames, view, mirrored } of SCENES) {
    if (frame < first + frames) {
      const { x, y } = inGroup(person);
      return toCrop(cropOf(view(frame - first), SIZE), mirrored ? group.width - x : x, y);
    }
    first += frames;
  }
  throw new RangeError(`no frame ${frame}`);
}

/** Returns who of the photograph a face in a frame is; -1: nobody. */
function personAt(face: Face, frame: number, { people: all }: FoundPeople): number {
  return all.findIndex((person) => {
    const at = inFrame(person, frame);
    return Math.hypot(middle(face).x - at.x, middle(face).y - at.y) < face.width / 2;
  });
}

async function framesOf(path: string): Promise<Picture[]> {
  const info = await rig.media.probe(path, 'video', signal);
  const pictures: Picture[] = [];
  for await (const frame of rig.media.decodeVideo(path, info, { signal })) {
    const { width, height } = frame;
    pictures.push(regionToRgb(frame, { x: 0, y: 0, width, height }, COLOR));
  }
  return pictures;
}
