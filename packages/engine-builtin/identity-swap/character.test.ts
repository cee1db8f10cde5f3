import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Picture } from '@semblance/engine-api/picture';
import { figurePoints, STANDING } from '@semblance/testkit/engine-builtin/identity-swap/figure';
import { openPortraits } from '@semblance/testkit/engine-builtin/portraits';
import { ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { turnedMesh } from '@semblance/testkit/vision/turned-mesh';
import { FaceFinder } from '@semblance/vision/face-finder';
import { openSession } from '@semblance/vision/models/session';
import { BODY, type Person, type PersonFinder } from '@semblance/vision/person';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type Character,
  drawnOn,
  fittedTo,
  mayBeHead,
  readCharacter,
  refuseBlur,
  refuseUnplaceable,
} from './character.ts';
import type { CharacterFace } from './character-face.ts';

const SIDE = 100;
let directory: string;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'semblance-character-'));
});

afterAll(() => rm(directory, { recursive: true, force: true }));

/**
 * Reads a red picture with `erasedRows` transparent rows. Returns what is kept and where a person was searched for.
 */
async function read(erasedRows: number, hips = 43) {
  const path = join(directory, `${erasedRows}.png`);
  const data = Uint8Array.from({ length: SIDE * SIDE * 4 }, (_, i) =>
    i % 4 === 3 ? (i < erasedRows * SIDE * 4 ? 0 : 255) : i % 4 === 0 ? 200 : 30,
  );
  await sharp(data, { raw: { width: SIDE, height: SIDE, channels: 4 } })
    .png()
    .toFile(path);
  const { people, searched } = bodyIn(hips);
  const faces = {
    findUpright: async () => [],
    look: async () => ({ faces: [], left: [] }),
  } as unknown as FaceFinder;
  const character = await readCharacter(path, { people, faces }, () => undefined);
  const first = ({ data: pixels }: Picture) => [...pixels.slice(0, 3)];
  return { character, drawn: first(character.picture), searched: searched.map(first) };
}

/** Returns a finder that finds one body in every picture. */
function bodyIn(hips: number): { people: PersonFinder; searched: Picture[] } {
  const searched: Picture[] = [];
  const points = Array.from({ length: 33 }, (_, i) => ({
    x: i % 2 ? 60 : 40,
    y: i === 23 || i === 24 ? hips : 20 + i,
    z: 0,
    visibility: 1,
    presence: 1,
  }));
  const person = {
    score: 1,
    points,
    mask: { side: 2, data: new Uint8Array(4), region: { x: 50, y: 50, size: 100, angle: 0 } },
    next: { x: 50, y: 50, size: 100, angle: 0 },
  } as Person;
  const people: PersonFinder = {
    find: async (picture) => {
      searched.push(picture);
      return person;
    },
    unrest: async () => 0,
    close: async () => undefined,
  };
  return { people, searched };
}

describe('the picture of a character', () => {
  it('shows white where a little of it was erased', async () => {
    const { character, drawn, searched } = await read(2);
    expect(character.alpha).toBeUndefined();
    expect(drawn).toEqual([255, 255, 255]);
    expect(searched).not.toContainEqual([200, 30, 30]);
  });

  it('that is a cut-out keeps its colours and what is there of them; a person is looked for in what it shows', async () => {
    const { character, drawn, searched } = await read(30);
    expect(character.alpha?.slice(0, 1)).toEqual(new Uint8Array([0]));
    expect(drawn).toEqual([200, 30, 30]);
    expect(searched).not.toContainEqual([200, 30, 30]);
  });

  it('is refused when it ends above the hips and shows no face', async () => {
    await expect(read(2, 98)).rejects.toMatchObject({
      code: 'face_not_detected',
      message: expect.stringContaining('character_key'),
      findings: { hints: [] },
    });
  });

  it('is refused when it shows an animal, in which a body was found', async () => {
    const [blazeface, facemesh, face_features] = await Promise.all([
      openSession('blazeface'),
      openSession('facemesh'),
      openSession('face_features'),
    ]);
    const faces = new FaceFinder({ blazeface, facemesh, face_features });
    const cat = join(import.meta.dirname, '..', '..', '..', 'media', 'cat.jpg');
    const read = readCharacter(cat, { people: bodyIn(43).people, faces }, () => undefined);
    await expect(read).rejects.toMatchObject({
      code: 'face_not_detected',
      message: expect.stringContaining('none of a person'),
    });
  });

  it('that is made smaller keeps what is there of it where it was', async () => {
    const { character } = await read(30);
    const { picture, alpha } = await fittedTo(character, 20);
    const { width, height, channels } = picture;
    expect(width).toBeLessThan(SIDE / 1.3);
    expect([picture.data.length, alpha?.length]).toEqual([width * height * channels, width * height]);
    const rows = Array.from({ length: height }, (_, y) => alpha?.[y * width + (width >> 1)]);
    for (const [y, value] of rows.entries()) {
      // 30 of 100 rows are erased; the edge around that row is soft.
      if ((y + 1) / height < 0.25) expect(value, `row ${y}`).toBe(0);
      if (y / height > 0.35) expect(value, `row ${y}`).toBe(255);
    }
    expect([...picture.data.slice(0, 3)]).toEqual([200, 30, 30]);
  });
});

describe('a portrait', () => {
  let portrait: Character;

  beforeAll(async () => {
    const [found] = await openPortraits(ASTRONAUT);
    if (!found) throw new Error('no face');
    const { character } = await read(2);
    const { picture, face } = found;
    const points = character.person.points.map((point) => ({ ...point, y: picture.height + point.y }));
    const person = { ...character.person, points };
    portrait = { picture, person, face: { points: face.points, mouth: [] } };
  });

  const refusal = (yaw: number) => () => {
    const points = turnedMesh((portrait.face as CharacterFace).points, yaw);
    refuseUnplaceable({ ...portrait, face: { points, mouth: [] } });
  };

  it('that is turned far is refused with its turn', () => {
    for (const yaw of [0, 0.4, -0.4]) expect(refusal(yaw)).not.toThrow();
    for (const yaw of [1.1, -1.1])
      expect(refusal(yaw)).toThrow(/character_key.*turned by about [5-7]0 degrees/);
    const hints = [expect.objectContaining({ code: 'face_turned', input: 'character' })];
    expect(refusal(1.1)).toThrow(expect.objectContaining({ findings: { hints } }));
  });

  it('that is much smaller than the person is refused with the size it needs', () => {
    const { points } = portrait.face as CharacterFace;
    const times = (by: number) => () =>
      refuseBlur(
        portrait,
        points.map((value) => value * by),
        [{ code: 'face_small', message: 'It is small.', input: 'character' }],
      );
    expect(times(5)).not.toThrow();
    expect(times(8)).toThrow(/character_key.*too small for this video.*at least \d+ are needed/);
    const findings = { hints: [{ code: 'face_small', message: 'It is small.', input: 'character' }] };
    expect(times(8)).toThrow(expect.objectContaining({ code: 'processing_failed', findings }));
  });

  it('of a body without knees is a head only where the video shows legs, and where its head can be drawn', () => {
    const standing = (knees: number, face = portrait.face): Character => {
      const { width, height } = portrait.picture;
      const points = figurePoints({ ...STANDING, x: width / 2, y: height, height }).map((point, i) =>
        i === BODY.leftKnee || i === BODY.rightKnee ? { ...point, presence: knees } : point,
      );
      return { ...portrait, person: { ...portrait.person, points }, ...(face && { face }) };
    };
    expect(drawnOn(standing(0.1), { legs: true }).headOnly).toBe(true);
    expect(drawnOn(standing(0.1), { legs: false }).headOnly).toBeUndefined();
    expect(drawnOn(standing(0.9), { legs: true }).headOnly).toBeUndefined();
    expect([0.1, 0.9].map((knees) => mayBeHead(standing(knees)))).toEqual([true, false]);
    const points = turnedMesh((portrait.face as CharacterFace).points, 1.1);
    expect(drawnOn(standing(0.1, { points, mouth: [] }), { legs: true }).headOnly).toBeUndefined();
  });
});
