import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { ADMIRAL, ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { FaceFinder } from '@semblance/vision/face-finder';
import { FACE_OVAL } from '@semblance/vision/face-regions';
import { openSession } from '@semblance/vision/models/session';
import type { PersonFinder } from '@semblance/vision/person';
import { openPersonFinder } from '@semblance/vision/person-finder';
import { fillPolygon, type Plane, plane } from '@semblance/vision/plane/plane';
import sharp from 'sharp';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { faceFrame } from '../animate/face-frame.ts';
import { type Character, readCharacter, showsHead } from './character.ts';
import { cutOutHead, type HeadCutout } from './head-cutout.ts';

const IOD = 60;
let directory: string;
let people: PersonFinder;
let faces: FaceFinder;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'semblance-head-'));
  people = await openPersonFinder();
  const [blazeface, facemesh] = await Promise.all([openSession('blazeface'), openSession('facemesh')]);
  faces = new FaceFinder({ blazeface, facemesh });
}, 60_000);
afterAll(async () => {
  await people.close();
  await rm(directory, { recursive: true, force: true });
});

async function headOf(path: string): Promise<HeadCutout> {
  const character: Character = await readCharacter(path, { people, faces }, () => undefined);
  if (!showsHead(character)) throw new Error('no portrait');
  return cutOutHead(character.picture, character.face.points, character.person.mask, {
    iod: IOD,
    colors: { range: 'tv', space: 'bt709' },
    checkpoint: () => undefined,
  });
}

/** Returns the opacity at a distance from the chin downwards and from the middle line, in eye distances. */
function under({ points, alphas: [alpha] }: HeadCutout, down: number, across: number): number {
  const { axes } = faceFrame(points);
  const [dx, dy] = [axes[1] as number, axes[4] as number];
  const x = (points[152 * 3] as number) + IOD * (down * dx + across * dy);
  const y = (points[152 * 3 + 1] as number) + IOD * (down * dy - across * dx);
  return alpha.data[Math.round(y) * alpha.width + Math.round(x)] as number;
}

describe('the head of a portrait', () => {
  it.each([
    ['the astronaut', ASTRONAUT],
    ['the admiral', ADMIRAL],
  ])('of %s has its whole face, and no clothes', async (_, path) => {
    const head = await headOf(path);
    const [alpha]: readonly [Plane] = head.alphas;
    const oval = plane(alpha.width, alpha.height);
    fillPolygon(
      oval,
      FACE_OVAL.flatMap((i) => [head.points[i * 3] as number, head.points[i * 3 + 1] as number]),
    );
    let [inside, shown] = [0, 0];
    oval.data.forEach((value, i) => {
      inside += value;
      shown += value * (alpha.data[i] as number);
    });
    expect(shown / inside).toBeGreaterThan(0.98);
    for (const across of [-1.5, -0.6, 0, 0.6, 1.5]) expect(under(head, 1, across)).toBeLessThan(0.02);
    expect(under(head, 0.05, 0)).toBeGreaterThan(0.6);
  });

  it('has a soft edge at the size at which it is drawn', async () => {
    const { alphas } = await headOf(ASTRONAUT);
    const [{ width, height, data }] = alphas;
    let [soft, steps] = [0, 0];
    for (let y = 0; y < height; y++) {
      for (let x = 1; x < width; x++) {
        const [a, b] = [data[y * width + x - 1] as number, data[y * width + x] as number];
        if (Math.abs(a - b) > 0.7) steps++;
        if (b > 0.05 && b < 0.95) soft++;
      }
    }
    expect(soft).toBeGreaterThan(500);
    expect(steps / soft).toBeLessThan(0.02);
  });

  it('keeps blending into the hair of the person where the picture cuts it, and is refused without a forehead', async () => {
    const whole = await headOf(ASTRONAUT);
    expect(whole.cutAbove).toBe(false);
    const { width, height } = await sharp(ASTRONAUT).metadata();
    const below = async (top: number): Promise<string> => {
      const path = join(directory, `${top}.png`);
      await sharp(ASTRONAUT)
        .extract({ left: 0, top, width, height: height - top })
        .toFile(path);
      return path;
    };
    // The eyes are at a height of 101 pixels, 43 from each other.
    const cut = await headOf(await below(50));
    expect(cut.cutAbove).toBe(true);
    await expect(headOf(await below(80))).rejects.toMatchObject({ code: 'face_not_detected' });
  });
});
