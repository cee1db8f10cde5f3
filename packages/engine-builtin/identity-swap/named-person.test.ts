/** @module-tag ffmpeg */
import type { FaceMapping, FoundPeople } from '@semblance/engine-api/people';
import { room, writeFrames } from '@semblance/testkit/engine-builtin/identity-swap/clips';
import {
  BLUE_SHIRT,
  drawFigure,
  RED_SHIRT,
  STANDING,
} from '@semblance/testkit/engine-builtin/identity-swap/figure';
import {
  type IdentityRig,
  openIdentityRig,
} from '@semblance/testkit/engine-builtin/identity-swap/identity-rig';
import { rgbOf } from '@semblance/testkit/engine-builtin/identity-swap/measure';
import { ADMIRAL } from '@semblance/testkit/engine-builtin/swap-rig';
import { FaceFinder } from '@semblance/vision/face-finder';
import { FaceRecogniser } from '@semblance/vision/face-recogniser';
import { openSession } from '@semblance/vision/models/session';
import { BODY } from '@semblance/vision/person';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { onePersonOf } from '../people/mapping.ts';
import { NamedPerson } from './named-person.ts';
import { PersonTracker } from './search.ts';

type Network = Awaited<ReturnType<typeof openSession>>;

const CLIP = { width: 1024, height: 576, rate: 10, frames: 24 };
/** Frame at which both have changed their sides, in another part of the room. */
const CUT = 12;

let rig: IdentityRig;
let video: string;
let found: FoundPeople;

/**
 * Draws the astronaut in blue and the admiral in red, beside each other, and tells which pixels are whose.
 * @param near whether they are seen from near, the astronaut with long hair
 */
function drawn(index: number, near = false): { rgb: Uint8Array; masks: Uint8Array[] } {
  const { width, height } = CLIP;
  const sides = index < CUT ? [0.3, 0.7] : [0.7, 0.3];
  let rgb = room(width, height, { x: index < CUT ? 0 : 1.1, y: 0 });
  const masks = [rig.astronaut, rig.admiral].map((head, who) => {
    const x = width * (sides[who] as number) + 6 * Math.sin(index / 3 + who);
    const size = near
      ? { y: 2 * height, height: 1.9 * height, longer: 0.03 }
      : { y: 0.97 * height, height: 0.93 * height };
    const hair = near && who === 0 ? { longHair: [92, 58, 34] as const } : {};
    const dress = { ...(who ? RED_SHIRT : BLUE_SHIRT), ...hair };
    const figure = drawFigure(width, height, { ...STANDING, x, ...size }, { dress, head }, rgb);
    rgb = figure.rgb;
    return figure.mask;
  });
  return { rgb, masks };
}

async function findPeople(path: string): Promise<FoundPeople> {
  const asked = {
    capability: 'character-swap',
    inputs: { video: path },
    parameters: {},
    people: true,
  } as const;
  return (await rig.engine.inspect?.({ ...asked, signal: rig.media.signal }))?.people as FoundPeople;
}

beforeAll(async () => {
  rig = await openIdentityRig();
  video = rig.media.path('two.mp4');
  await writeFrames(rig.media.media, CLIP, video, (index) => drawn(index).rgb);
  found = await findPeople(video);
}, 120_000);
afterAll(() => rig.close());

const naming = (person: number, { people } = found): FaceMapping => ({
  people: people.map(({ box, look }, place) => ({
    id: `face-${place}`,
    box,
    look,
    ...(place === person && { input: 'character' }),
  })),
});

const swap = async (mapping: FaceMapping) =>
  rig.swap(video, await rig.redCharacter(rig.astronaut), { parameters: { faces: JSON.stringify(mapping) } });

/** Returns the mean change of each person's pixels in each frame, in levels. */
async function changes(
  path: string,
  from = video,
  near = false,
): Promise<[astronaut: number, admiral: number][]> {
  const { media, signal } = rig.media;
  const framesOf = async (of: string): Promise<Uint8Array[]> => {
    const all: Uint8Array[] = [];
    for await (const frame of media.decodeVideo(of, await media.probe(of, 'video', signal), { signal }))
      all.push(rgbOf(frame).slice());
    return all;
  };
  const [before, after] = [await framesOf(from), await framesOf(path)];
  expect([after.length, after[0]?.length]).toEqual([CLIP.frames, before[0]?.length]);
  return before.map((rgb, index) => {
    const { masks } = drawn(index, near);
    const means = masks.map((mask) => {
      let [sum, count] = [0, 0];
      for (let i = 0; i < mask.length; i++) {
        if ((mask[i] as number) < 128) continue;
        for (let c = 3 * i; c < 3 * i + 3; c++)
          sum += Math.abs((rgb[c] as number) - ((after[index] as Uint8Array)[c] as number));
        count += 3;
      }
      return sum / count;
    });
    return means as [number, number];
  });
}

describe('the person of Identity Swap, of two', () => {
  it('is the one who is named, in every frame across a cut at which both change their sides', async () => {
    expect(found.people).toHaveLength(2);
    const replaced: number[] = [];
    for (const place of [0, 1]) {
      const { outputPath, details, findings } = await swap(naming(place));
      const all = await changes(outputPath);
      // Who it is: found people are in the order of their prominence.
      const who = (all[0] as [number, number])[0] > (all[0] as [number, number])[1] ? 0 : 1;
      replaced.push(who);
      for (const [index, change] of all.entries()) {
        expect(change[who], `frame ${index}`).toBeGreaterThan(12);
        expect(change[1 - who], `frame ${index}`).toBeLessThan(4);
      }
      expect(details).toMatchObject({ frames_with_swap: CLIP.frames });
      expect(findings?.mapped).toEqual(
        [0, 1].map((one) => ({
          id: `face-${one}`,
          ...(one === place && { input: 'character' }),
          frames: one === place ? CLIP.frames : 0,
        })),
      );
    }
    expect(replaced.sort()).toEqual([0, 1]);
  }, 240_000);

  it('keeps their long hair where the character shows a head only, and the other stays', async () => {
    const near = rig.media.path('near.mp4');
    await writeFrames(rig.media.media, CLIP, near, (index) => drawn(index, true).rgb);
    const both = await findPeople(near);
    const place = both.people.findIndex(({ box, atUs }) => box.x < 0.5 === atUs < (CUT * 1e6) / CLIP.rate);
    const mapping = naming(place, both);
    const parameters = { faces: JSON.stringify(mapping) };
    const { outputPath, findings } = await rig.swap(near, ADMIRAL, { parameters });
    expect(findings?.hints.map(({ code }) => code)).toContain('hair_kept');
    expect(findings?.mapped?.find(({ id }) => id === `face-${place}`)?.frames).toBeGreaterThan(
      0.8 * CLIP.frames,
    );
    for (const [index, [astronaut, admiral]] of (await changes(outputPath, near, true)).entries()) {
      expect(admiral, `frame ${index}`).toBeLessThan(3);
      expect(astronaut, `frame ${index}`).toBeGreaterThan(admiral);
    }
  }, 120_000);

  it('is looked for anew where somebody else has taken the place without a cut', async () => {
    const networks = await Promise.all(
      (['blazeface', 'facemesh', 'faceres'] as const).map((name) => openSession(name)),
    );
    const [blazeface, facemesh, faceres] = networks as [Network, Network, Network];
    const faces = new FaceFinder({ blazeface, facemesh });
    const checkpoint = () => undefined;
    const work = {
      capability: 'character-swap',
      inputs: { character: ADMIRAL },
      parameters: { faces: JSON.stringify(naming(0)) },
    } as const;
    const { person } =
      onePersonOf(work, { recogniser: async () => new FaceRecogniser(faceres), checkpoint }) ?? {};
    if (!person) throw new Error('nobody is named');
    const tracker = new PersonTracker(
      rig.finder,
      new NamedPerson({ people: rig.finder, faces, checkpoint }, person),
    );
    const sides: (string | undefined)[] = [];
    for (let index = 0; index < CLIP.frames; index++) {
      const { width, height } = CLIP;
      const found = await tracker.track({ width, height, channels: 3, data: drawn(index).rgb });
      sides.push(found && ((found.points[BODY.nose]?.x ?? 0) < width / 2 ? 'left' : 'right'));
    }
    const begins = sides[0];
    expect(sides.slice(0, CUT)).toEqual(Array(CUT).fill(begins));
    // It is looked at every fifth frame, and somebody else is waited out for 25.
    const after = sides.slice(CUT + 6);
    expect(after).toEqual(Array(after.length).fill(begins === 'left' ? 'right' : 'left'));
  }, 120_000);

  it('who is not there is told to be not there, and several are refused', async () => {
    const [first] = naming(-1).people;
    if (!first) throw new Error('nobody was found');
    const look = Buffer.from(Int8Array.from({ length: 1024 }, (_, i) => 127 * Math.sin(i * i))).toString(
      'base64',
    );
    await expect(
      swap({ people: [...naming(-1).people, { ...first, id: 'face-9', look, input: 'character' }] }),
    ).rejects.toMatchObject({
      code: 'face_not_detected',
      message: 'The person of face_id was not found in the reference video (video_key).',
    });
    const both = naming(0).people.map((person) => ({ ...person, input: 'character' }));
    await expect(swap({ people: both })).rejects.toMatchObject({ code: 'processing_failed' });
  }, 120_000);
});
