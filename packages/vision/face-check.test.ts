import { readdir } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import type { Picture } from '@semblance/engine-api/picture';
import type { InferenceSession } from 'onnxruntime-node';
import sharp, { type Sharp } from 'sharp';
import { beforeAll, describe, expect, it, vi } from 'vitest';
import { FaceCheck, FEATURES } from './face-check.ts';
import { FaceFinder } from './face-finder.ts';
import { cropsOf, type Face, FaceMesher } from './face-mesh.ts';
import { FaceRecogniser } from './face-recogniser.ts';
import { openSession } from './models/session.ts';

const MEDIA = join(import.meta.dirname, '..', '..', 'media');
const CAT = join(MEDIA, 'cat.jpg');
const ASTRONAUT = join(MEDIA, 'astronaut.png');
const SAMPLES = join(dirname(createRequire(import.meta.url).resolve('@vladmandic/face-api')), '..', 'demo');

let sessions: Record<'facemesh' | 'face_features' | 'faceres', Awaited<ReturnType<typeof openSession>>>;
let checked: FaceFinder;
/** The finder that takes everything for a face on which detector and mesh settle. */
let unchecked: FaceFinder;

beforeAll(async () => {
  const [blazeface, facemesh, face_features, faceres] = await Promise.all([
    openSession('blazeface'),
    openSession('facemesh'),
    openSession('face_features'),
    openSession('faceres'),
  ]);
  sessions = { facemesh, face_features, faceres };
  checked = new FaceFinder({ blazeface, facemesh, face_features, recogniser });
  unchecked = new FaceFinder({ blazeface, facemesh });
});

const proceed = (): void => undefined;

async function recogniser(): Promise<FaceRecogniser> {
  return new FaceRecogniser(sessions.faceres);
}

async function pictureOf(image: Sharp): Promise<Picture> {
  const rgb = image.flatten({ background: '#888' }).toColourspace('srgb');
  const { data, info } = await rgb.raw().toBuffer({ resolveWithObject: true });
  const { width, height, channels } = info;
  return { width, height, channels: channels as 1 | 3, data: new Uint8Array(data) };
}

describe('what is no face', () => {
  it('a cat on which detector and mesh settle is refused', async () => {
    const cat = await pictureOf(sharp(CAT));
    expect(await unchecked.find(cat, proceed)).not.toEqual([]);
    expect(await checked.find(cat, proceed)).toEqual([]);
  });

  it('a cat that the first look leaves open is refused by the second, and a person is not', async () => {
    const undecided = { bias: 0, weights: new Float32Array(FEATURES) };
    const mesher = new FaceMesher(sessions.facemesh);
    const isFace = async (image: Sharp, asked?: typeof recogniser): Promise<boolean> => {
      const picture = await pictureOf(image);
      const [face] = await unchecked.find(picture, proceed);
      const check = new FaceCheck(sessions.face_features, { mesher, recogniser: asked, weights: undecided });
      return check.isFace(cropsOf(picture), face as Face);
    };
    const cat = sharp(CAT).resize(1000);
    expect(await isFace(cat.clone())).toBe(true);
    expect(await isFace(cat, recogniser)).toBe(false);
    expect(await isFace(sharp(ASTRONAUT), recogniser)).toBe(true);
  });

  it('a mesh that was refused is not looked at again by the searches for smaller and turned faces', async () => {
    const looks = vi.fn(sessions.face_features.run);
    const face_features = { run: looks } as unknown as InferenceSession;
    const [blazeface, { facemesh }] = [await openSession('blazeface'), sessions];
    const finder = new FaceFinder({ blazeface, facemesh, face_features, recogniser });
    expect((await finder.look(await pictureOf(sharp(CAT)), proceed)).left).toEqual(['not_a_person']);
    // The place and its mirror image.
    expect(looks).toHaveBeenCalledTimes(2);
  });

  it('a cat is told as left alone, and so is a bystander', async () => {
    const cat = await pictureOf(sharp(CAT).rotate(270));
    expect((await checked.lookUpright(cat, 30, proceed)).left).toContain('not_a_person');
    const { faces, left } = await checked.look(await pictureOf(sharp(join(MEDIA, 'einstein.jpg'))), proceed);
    expect([faces.length, left]).toEqual([1, ['bystander']]);
  });

  it('a face that is too covered for a mesh is told as such, and nothing else is', async () => {
    const astronaut = sharp(ASTRONAUT);
    const box = { create: { width: 103, height: 48, channels: 3, background: '#3b6ea5' } } as const;
    const covered = astronaut.clone().composite([{ input: box, left: 174, top: 97 }]);
    const look = async (image: Sharp) => {
      const { faces, left } = await checked.look(await pictureOf(image), proceed);
      return [faces.length, left];
    };
    expect(await look(covered)).toEqual([0, ['covered']]);
    expect(await look(astronaut.clone().extract({ left: 0, top: 250, width: 512, height: 262 }))).toEqual([
      0,
      [],
    ]);
    expect(await look(sharp(CAT))).toEqual([0, ['not_a_person']]);
  });

  it('a face that is known is not checked again', async () => {
    const cat = await pictureOf(sharp(CAT).rotate(270));
    const known = await unchecked.findUpright(cat, 30, proceed);
    expect(known).not.toEqual([]);
    expect(await checked.findUpright(cat, 30, proceed)).toEqual([]);
    expect((await checked.lookUpright(cat, 30, proceed, { known })).faces).toEqual(known);
  });

  it('a mesh that lies upside down is refused, and the face is found the right way round', async () => {
    const turned = await pictureOf(sharp(ASTRONAUT).rotate(180));
    const [wrong] = await unchecked.find(turned, proceed);
    expect(Math.abs(wrong?.roll ?? 3)).toBeLessThan(1);
    const [right] = await checked.find(turned, proceed);
    expect(Math.abs(right?.roll ?? 0)).toBeGreaterThan(2.8);
  });

  it('a small face is found beside a large animal', async () => {
    const [cat, person] = [sharp(CAT).resize(900), await sharp(ASTRONAUT).resize(260).toBuffer()];
    const both = await sharp({ create: { width: 1200, height: 900, channels: 3, background: '#888' } })
      .composite([
        { input: await cat.toBuffer(), left: 0, top: 0 },
        { input: person, left: 920, top: 500 },
      ])
      .png()
      .toBuffer();
    const faces = await checked.find(await pictureOf(sharp(both)), proceed);
    expect(faces).toHaveLength(1);
    expect(faces[0]?.points[0]).toBeGreaterThan(920);
  });
});

describe('faces', () => {
  const CHANGES: Readonly<Record<string, (image: Sharp) => Sharp>> = {
    plain: (image) => image,
    mirrored: (image) => image.flop(),
    tilted: (image) => image.rotate(12, { background: '#888' }),
    'on its side': (image) => image.rotate(90),
    grey: (image) => image.greyscale(),
    dark: (image) => image.linear(0.2, 0),
    blurred: (image) => image.blur(1.2),
  };

  it.each(Object.entries(CHANGES))(
    'portraits and groups, %s, lose none',
    async (_, change) => {
      const samples = (await readdir(SAMPLES)).filter((name) => /^sample\d\.jpg$/.test(name));
      const paths = [
        ASTRONAUT,
        ...['grace_hopper.jpg', 'einstein.jpg'].map((name) => join(MEDIA, name)),
        ...samples.map((name) => join(SAMPLES, name)),
      ];
      for (const path of paths) {
        const picture = await pictureOf(change(sharp(path).resize(900, 900, { fit: 'inside' })));
        const expected = await unchecked.find(picture, proceed);
        expect((await checked.find(picture, proceed)).length, path).toBe(expected.length);
      }
    },
    120_000,
  );

  it('a drawn face is a face', async () => {
    const drawn = await pictureOf(sharp(Buffer.from(drawnFace())));
    expect(await unchecked.find(drawn, proceed)).toHaveLength(1);
    expect(await checked.find(drawn, proceed)).toHaveLength(1);
  });
});

function drawnFace(): string {
  const eye = (x: number): string =>
    `<ellipse cx="${x}" cy="150" rx="22" ry="12" fill="#fff" stroke="#432" stroke-width="3"/><circle cx="${x}" cy="150" r="9" fill="#532"/><path d="M${x - 28} 125q28 -16 56 0" stroke="#421" stroke-width="8" fill="none"/>`;
  return `<svg xmlns="http://www.w3.org/2000/svg" width="320" height="400"><rect width="320" height="400" fill="#9bd"/><path d="M110 290h100v120h-100Z" fill="#d9a384"/><ellipse cx="160" cy="150" rx="112" ry="125" fill="#4a3020"/><ellipse cx="160" cy="190" rx="95" ry="125" fill="#e8b799"/>${eye(118)}${eye(202)}<path d="M160 155q-6 50 -18 62q18 12 38 0" stroke="#b5795a" stroke-width="5" fill="none"/><path d="M118 255q42 -14 84 0q-42 34 -84 0Z" fill="#b5483f"/></svg>`;
}
