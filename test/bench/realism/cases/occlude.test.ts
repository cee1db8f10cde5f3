import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Picture } from '@semblance/engine-api/picture';
import { FaceFinder } from '@semblance/vision/face-finder';
import type { Face } from '@semblance/vision/face-mesh';
import { FACE_OVAL } from '@semblance/vision/face-regions';
import { openSession } from '@semblance/vision/models/session';
import { fillPolygon, plane } from '@semblance/vision/plane/plane';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ROOT, readRgb } from '../../photo-swap/portraits.ts';
import type { Occluded } from './composite.ts';
import { DEGRADATIONS, degrade } from './degrade.ts';
import { OCCLUDERS, type OccluderName, occlude } from './occlude.ts';
import { readPortraits } from './portrait.ts';
import { measureSharpness } from './sharpness.ts';

let finder: FaceFinder;
const known = new Map<string, { picture: Picture; face: Face }>();
beforeAll(async () => {
  const [blazeface, facemesh] = await Promise.all([openSession('blazeface'), openSession('facemesh')]);
  finder = new FaceFinder({ blazeface, facemesh });
  for (const name of ['astronaut.png', 'grace_hopper.jpg', 'einstein.jpg']) {
    const whole = await readRgb(join(ROOT, 'media', name));
    const picture = name === 'einstein.jpg' ? await halved(whole) : whole;
    const [face] = await finder.find(picture, () => undefined);
    if (face) known.set(name, { picture, face });
  }
});
/** Halves the sides of a picture, because a drawing takes time for each pixel. */
const halved = async ({ width, height, data }: Picture): Promise<Picture> => {
  const half = sharp(data, { raw: { width, height, channels: 3 } }).resize({ width: Math.round(width / 2) });
  const { data: pixels, info } = await half.raw().toBuffer({ resolveWithObject: true });
  return { width: info.width, height: info.height, channels: 3, data: new Uint8Array(pixels) };
};
const portrait = (name: string): { picture: Picture; face: Face } => {
  const found = known.get(name);
  if (!found) throw new Error(`no face in ${name}`);
  return found;
};
const SEED = 11;
const drawings = new Map<string, Promise<Occluded>>();
/** Draws an object, once for each file. */
const drawn = (name: OccluderName, file: string): Promise<Occluded> => {
  const { picture, face } = portrait(file);
  const drawing = drawings.get(name + file) ?? occlude(name, picture, face, SEED);
  drawings.set(name + file, drawing);
  return drawing;
};
const same = (a: Picture, b: Picture): boolean => Buffer.from(a.data).equals(Buffer.from(b.data));
const changes = (before: Picture, after: Picture): boolean[] =>
  Array.from({ length: before.width * before.height }, (_, i) =>
    [0, 1, 2].some((c) => before.data[i * 3 + c] !== after.data[i * 3 + c]),
  );

/** Mesh points that each object must cover. */
const COVERED: Readonly<Record<OccluderName, readonly number[]>> = {
  'mask-white': [4, 13, 14, 200, 50, 280],
  'mask-black': [4, 13, 14, 200, 50, 280],
  'mask-blue': [4, 13, 14, 200, 50, 280],
  'mask-skin': [4, 13, 14, 200, 50, 280],
  'mask-patterned': [4, 13, 14, 200, 50, 280],
  'hand-mouth-own': [13, 14],
  'hand-mouth-other': [13, 14],
  'hand-cheek-own': [],
  'hand-cheek-other': [],
  'hand-eye-own': [],
  'hand-eye-other': [],
  microphone: [17],
  mug: [14, 17],
  'drinking-glass': [],
  'hair-over-eye': [],
  sunglasses: [159, 145, 386, 374],
  'clear-glasses': [],
  caption: [],
  scarf: [17, 199],
  'half-rim-glasses': [],
  'hand-mouth-real': [13, 14],
  'hand-eye-real': [],
};

describe.each(OCCLUDERS)('%s', (name) => {
  it.each(['astronaut.png', 'einstein.jpg'])(
    'changes in %s the masked and shaded pixels alone',
    async (file) => {
      const { picture, face } = portrait(file);
      const { picture: after, mask, shadow } = await drawn(name, file);
      const changed = changes(picture, after);
      let stray = 0;
      let covered = 0;
      let kept = 0;
      for (let i = 0; i < changed.length; i++) {
        if (changed[i] && mask.data[i] === 0 && shadow.data[i] === 0) stray++;
        if ((mask.data[i] as number) < 0.5) continue;
        covered++;
        if (!changed[i]) kept++;
      }
      expect(stray).toBe(0);
      expect(covered).toBeGreaterThan(0.01 * face.width ** 2);
      // A pixel that happens to have the object's colour keeps its bytes.
      expect(kept / covered).toBeLessThan(0.05);
      for (const point of COVERED[name]) {
        const [x, y] = [
          Math.floor(face.points[point * 3] as number),
          Math.floor(face.points[point * 3 + 1] as number),
        ];
        expect(mask.data[y * picture.width + x], `mesh point ${point}`).toBeGreaterThan(0.5);
      }
    },
  );

  it('lies in front of the face, and leaves part of it free', async () => {
    const { picture, face } = portrait('astronaut.png');
    const { mask } = await drawn(name, 'astronaut.png');
    const oval = plane(picture.width, picture.height);
    fillPolygon(
      oval,
      FACE_OVAL.flatMap((i) => [face.points[i * 3] as number, face.points[i * 3 + 1] as number]),
    );
    let inside = 0;
    let area = 0;
    oval.data.forEach((one, i) => {
      area += one;
      inside += one * (mask.data[i] as number);
    });
    expect(inside / area).toBeGreaterThan(0.02);
    expect(inside / area).toBeLessThan(0.75);
  });

  it('is the same for the same seed, and another for another', async () => {
    const { picture, face } = portrait('einstein.jpg');
    const first = await drawn(name, 'einstein.jpg');
    const again = await occlude(name, picture, face, SEED);
    const other = await occlude(name, picture, face, SEED + 1);
    expect(same(first.picture, again.picture)).toBe(true);
    expect(first.mask.data).toEqual(again.mask.data);
    expect(same(first.picture, other.picture)).toBe(false);
  });
});

it('an object in a grey picture is grey', async () => {
  const { picture } = await drawn('mask-blue', 'einstein.jpg');
  let colour = 0;
  for (let p = 0; p < picture.data.length; p += 3) {
    colour = Math.max(colour, Math.abs((picture.data[p] as number) - (picture.data[p + 2] as number)));
  }
  expect(colour).toBeLessThan(3);
});

it('a blurred picture is measured as blurred, a noisy one as noisy', async () => {
  const { picture, face } = portrait('astronaut.png');
  const sharp = measureSharpness(picture, face);
  const soft = measureSharpness(await degrade('blur', picture, face, 1), face);
  const noisy = measureSharpness(await degrade('noise', picture, face, 1), face);
  expect(soft.edge).toBeGreaterThan(sharp.edge + 0.5);
  expect(noisy.noise).toBeGreaterThan(sharp.noise + 6);
});

describe.each(DEGRADATIONS)('the condition %s', (name) => {
  it('changes the picture, the same for the same seed, and a face is still found', async () => {
    const { picture, face } = portrait('astronaut.png');
    const worse = await degrade(name, picture, face, 3);
    const again = await degrade(name, picture, face, 3);
    expect(worse.data).toHaveLength(worse.width * worse.height * 3);
    expect(same(worse, again)).toBe(true);
    expect(same(worse, picture)).toBe(false);
    const [found] = await finder.find(worse, () => undefined);
    if (name === 'small-face') expect(found?.width).toBeCloseTo(90, -1);
    else if (name === 'large-face') expect((found?.width ?? 0) / 1500).toBeCloseTo(1, 1);
    else if (name === 'tilted-90') expect(found?.roll).toBeCloseTo(face.roll + Math.PI / 2, 0);
    else if (name === 'tilted-25')
      expect((found?.roll ?? 0) - face.roll).toBeCloseTo((25 * Math.PI) / 180, 1);
    else expect(found).toBeDefined();
  });
});

describe('the portraits of a folder', () => {
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'semblance-portraits-'));
    const media = (name: string): ReturnType<typeof sharp> => sharp(join(ROOT, 'media', name));
    await media('astronaut.png').jpeg().toFile(join(folder, 'p001.jpg'));
    await media('grace_hopper.jpg').jpeg().toFile(join(folder, 'p000.jpg'));
    // A plain picture shows no face.
    const plain = { width: 300, height: 300, channels: 3, background: '#6080a0' } as const;
    await sharp({ create: plain }).jpeg().toFile(join(folder, 'p002.jpg'));
  });
  afterAll(() => rm(folder, { recursive: true, force: true }));

  it('are read in order, and their traits tell a laughing astronaut from an officer with glasses', async () => {
    const portraits = await readPortraits(folder, finder);
    expect(portraits.map(({ label }) => label)).toEqual(['p000', 'p001']);
    const [officer, astronaut] = portraits.map(({ traits }) => traits);
    expect(officer?.glasses).toBe(true);
    expect(astronaut?.glasses).toBe(false);
    expect(astronaut?.teeth).toBeGreaterThan(0.25);
    expect(officer?.opening).toBeLessThan(astronaut?.opening ?? 0);
    expect(astronaut?.lightness).toBeGreaterThan(40);
  });
});
