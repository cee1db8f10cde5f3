/**
 * @module-tag ffmpeg
 * @module-tag speech
 */
import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import type { Engine } from '@semblance/engine-api/engine';
import type { FaceMapping, FoundPeople } from '@semblance/engine-api/people';
import type { Picture } from '@semblance/engine-api/picture';
import { speakScript } from '@semblance/speech/speech';
import { findSpeechTools } from '@semblance/speech/tools';
import { GROUP, openEyes } from '@semblance/testkit/engine-builtin/group';
import { GroupClip } from '@semblance/testkit/engine-builtin/group-clip';
import { type MediaRig, openMediaRig } from '@semblance/testkit/media/clips';
import type { Face } from '@semblance/vision/face-mesh';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createBuiltinEngine } from '../index.ts';

/** Corners and middle of the lips, and the chin. */
const MOUTH = [61, 291, 0, 17, 13, 14, 152] as const;

let rig: MediaRig;
let engine: Engine;
let clip: GroupClip;
let found: FoundPeople;
let voice: string;

async function people(inputs: Record<string, string>): Promise<FoundPeople> {
  const asked = { capability: 'lip-sync', parameters: {}, people: true, signal: rig.signal } as const;
  const told = (await engine.inspect?.({ ...asked, inputs }))?.people;
  if (!told) throw new Error('no people were told');
  return told;
}

beforeAll(async () => {
  rig = await openMediaRig();
  engine = createBuiltinEngine({ threads: 1 });
  await engine.warmUp(rig.signal);
  clip = await GroupClip.make(rig, 'group.mp4', await people({ image: GROUP }));
  found = await people({ video: clip.path });
  const tools = await findSpeechTools();
  if (!tools.available) throw new Error(tools.reason);
  voice = rig.path('voice.wav');
  const script = 'My father bought a big map of Panama. Bob may have a boat.';
  await speakScript({ script, voiceId: 'slt', path: voice, directory: rig.dir, tools, signal: rig.signal });
}, 120_000);
afterAll(async () => {
  await engine.close();
  await rig.close();
});

async function speak(mapping: FaceMapping) {
  return engine.render({
    capability: 'lip-sync',
    inputs: { video: clip.path, audio: voice },
    parameters: { faces: JSON.stringify(mapping) },
    outputDir: await mkdtemp(join(rig.dir, 'out-')),
    signal: rig.signal,
    onProgress: () => undefined,
  });
}

const naming = (speaker: number): FaceMapping => ({
  people: found.people.map(({ box, look }, place) => ({
    id: `face-${place}`,
    box,
    look,
    ...(place === speaker && { input: 'audio' }),
  })),
});

describe('the speaker of Lip Sync among five people, across cuts', () => {
  it.each([0, 2, 4])(
    'is person %d, and no other mouth moves in any frame',
    async (speaker) => {
      expect(found.people).toHaveLength(5);
      const places = clip.placesOf(found);
      const { outputPath, findings } = await speak(naming(speaker));
      const [before, after] = [await clip.framesOf(), await clip.framesOf(outputPath)];
      const eyes = await openEyes();
      const moved = new Map<number, number[]>();
      for (const [i, picture] of before.entries()) {
        for (const face of await eyes.find(picture)) {
          const place = places.indexOf(clip.personAt(face, i));
          moved.set(place, [...(moved.get(place) ?? []), change(picture, after[i] as Picture, face)]);
        }
      }
      const told = [0, 1, 2, 3, 4].map((place) => moved.get(place) ?? []);
      for (const [place, changes] of told.entries()) {
        expect(changes.length).toBeGreaterThan(25);
        // What is left is the loss of the encoding.
        if (place !== speaker) expect(Math.max(...changes), `person ${place}`).toBeLessThan(4);
      }
      const own = told[speaker] as number[];
      expect(own.filter((change) => change > 4).length).toBeGreaterThan(0.7 * own.length);
      expect(findings?.mapped).toEqual(
        found.people.map((_, place) =>
          place === speaker
            ? { id: `face-${place}`, input: 'audio', frames: expect.any(Number) }
            : { id: `face-${place}`, frames: 0 },
        ),
      );
      expect(findings?.faces).toMatchObject({ changed: 1, found: 5 });
    },
    240_000,
  );

  it.each<[string, () => FaceMapping]>([
    ['two people', () => ({ people: naming(0).people.map((one) => ({ ...one, input: 'audio' })) })],
    ['nobody', () => naming(-1)],
    ['everybody else', () => ({ ...naming(0), others: 'audio' })],
    [
      'a person for the video',
      () => ({ people: naming(0).people.map((one) => ({ ...one, input: 'video' })) }),
    ],
  ])('is one person: a mapping of %s is refused', async (_what, mapping) => {
    await expect(speak(mapping())).rejects.toMatchObject({ code: 'processing_failed' });
  });

  it('who is not in the video is told to be not there', async () => {
    const { people: others } = await people({
      image: join(import.meta.dirname, '../../../media/astronaut.png'),
    });
    const stranger = others.map(({ box, look }) => ({ id: 'face-9', box, look, input: 'audio' }));
    const known = naming(-1).people;
    await expect(speak({ people: [...known, ...stranger] })).rejects.toMatchObject({
      code: 'face_not_detected',
      message: 'The person of speaker_face_id was not found in the video (video_key).',
    });
  }, 60_000);
});

/** Returns the mean change of brightness around a mouth. */
function change(before: Picture, after: Picture, { points }: Face): number {
  const xs = MOUTH.map((i) => points[3 * i] as number);
  const ys = MOUTH.map((i) => points[3 * i + 1] as number);
  let [sum, count] = [0, 0];
  for (let y = Math.floor(Math.min(...ys)); y < Math.max(...ys); y++) {
    for (let x = Math.floor(Math.min(...xs)); x < Math.max(...xs); x++, count++) {
      const at = 3 * (y * before.width + x) + 1;
      sum += Math.abs((before.data[at] as number) - (after.data[at] as number));
    }
  }
  return sum / count;
}
