/** @module-tag ffmpeg */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Engine, RenderResult } from '@semblance/engine-api/engine';
import { type FaceMapping, type FoundPeople, mappedRole } from '@semblance/engine-api/people';
import type { Picture } from '@semblance/engine-api/picture';
import { cutPortraits, GROUP, openEyes } from '@semblance/testkit/engine-builtin/group';
import { GroupClip, SIZE } from '@semblance/testkit/engine-builtin/group-clip';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { readPicture } from '@semblance/testkit/engine-builtin/video-swap/clips';
import { type MediaRig, openMediaRig } from '@semblance/testkit/media/clips';
import { centroid, type Face } from '@semblance/vision/face-mesh';
import { sameness } from '@semblance/vision/face-recogniser';
import { FACE_OVAL } from '@semblance/vision/face-regions';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createBuiltinEngine } from '../index.ts';

let rig: MediaRig;
let engine: Engine;
let dir: string;
let eyes: Awaited<ReturnType<typeof openEyes>>;
let group: Picture;
let sources: string[];
let looks: Float32Array[];
const signal = AbortSignal.timeout(1_200_000);

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
  it.each<[string, number]>([
    ['as it is', 1],
    ['brightened', 1.7],
    ['dimmed', 0.35],
  ])(
    'holds in every frame of the clip %s',
    async (_what, gain) => {
      const stills = await people({ image: GROUP });
      const clip = await GroupClip.make(rig, `group-${gain}.mp4`, stills, gain);
      const found = await people({ video: clip.path });
      expect(found.people).toHaveLength(5);
      const places = clip.placesOf(found);
      expect([...places].sort()).toEqual([0, 1, 2, 3, 4]);
      const given = [4, 1, 0];
      const { outputPath, findings } = await swap('face-swap', { video: clip.path }, found, given);
      const [before, after] = await Promise.all([clip.framesOf(), clip.framesOf(outputPath)]);
      expect(after).toHaveLength(before.length);
      const swapped = await swappedStills(clip, stills, given);
      const seen = new Map<number, number>();
      const wrong: string[] = [];
      for (const [i, picture] of before.entries()) {
        const out = after[i] as Picture;
        for (const face of await eyes.find(picture)) {
          const person = clip.personAt(face, i);
          const place = places.indexOf(person);
          if (place < 0) continue;
          seen.set(place, (seen.get(place) ?? 0) + 1);
          const look = await eyes.describe(out, face);
          const was = await eyes.describe(picture, face);
          const own = sameness(look, was);
          const likes = swapped.map((of) => sameness(of(person, clip.isMirrored(i)), look));
          const to = given.indexOf(place);
          if (to < 0 ? own < 0.95 : mostOf(likes) !== to || own > 0.95)
            wrong.push(
              `frame ${i} person ${place}: ${own.toFixed(2)} ${likes.map((n) => n.toFixed(2))} to ${to}`,
            );
        }
      }
      expect(wrong).toEqual([]);
      for (const [place, frames] of seen) if (given.includes(place)) expect(frames).toBeGreaterThan(25);
      expect(findings?.mapped).toHaveLength(5);
      // A preview knows them too, in the group and in its mirror image.
      for (const i of [6, 30]) {
        const shown = await previewOf({ video: clip.path }, found, given, i * 40_000);
        const picture = before[i] as Picture;
        let changed = 0;
        for (const face of await eyes.find(picture)) {
          const person = clip.personAt(face, i);
          const place = places.indexOf(person);
          if (place < 0) continue;
          const was = await eyes.describe(picture, face);
          const look = await eyes.describe(shown, face);
          const likes = swapped.map((of) => sameness(of(person, clip.isMirrored(i)), look));
          const to = given.indexOf(place);
          if (to < 0) expect(sameness(look, was), `frame ${i} person ${place}`).toBeGreaterThan(0.8);
          else expect(mostOf(likes), `frame ${i} person ${place}`).toBe(to);
          if (to >= 0) changed++;
        }
        expect(changed).toBe(3);
      }
    },
    300_000,
  );
});

/**
 * Returns of each given source what a person of the photograph looks like with its face, in the light of the clip: what a
 * face gains of a source says little where the light hides the skin.
 */
async function swappedStills(clip: GroupClip, stills: FoundPeople, given: readonly number[]) {
  const all: ((person: number, mirrored: boolean) => Float32Array)[] = [];
  for (const [at] of given.entries()) {
    const looksIn = async (image: string, place: (x: number) => number): Promise<Float32Array[]> => {
      const { outputPath } = await swap('face-swap-image', { image }, stills, [], sources[at]);
      const picture = await readPicture(outputPath);
      const faces = await eyes.find(picture);
      return Promise.all(
        stills.people.map((person) => {
          const { x, y } = inGroup(person);
          const here = (one: Face) => Math.hypot(middle(one).x - place(x), middle(one).y - y) < one.width / 2;
          return eyes.describe(picture, faces.find(here) as Face);
        }),
      );
    };
    const plain = await looksIn(clip.still, (x) => x);
    const mirror = await looksIn(clip.mirrored, (x) => group.width - x);
    all.push((person, mirrored) => (mirrored ? mirror : plain)[person] as Float32Array);
  }
  return all;
}
