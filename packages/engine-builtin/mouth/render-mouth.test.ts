import { join } from 'node:path';
import { yuvToRgb } from '@semblance/testkit/engine-builtin/yuv-to-rgb';
import { FaceFinder } from '@semblance/vision/face-finder';
import type { Face } from '@semblance/vision/face-mesh';
import { openSession } from '@semblance/vision/models/session';
import sharp from 'sharp';
import { beforeAll, describe, expect, it } from 'vitest';
import { faceFrame, toFaceFrame } from '../animate/face-frame.ts';
import { rgbToYuv } from '../animate/yuv.ts';
import { ringsOf } from './lip-rings.ts';
import type { MouthCommand } from './mouth-shape.ts';
import { type Rect, renderMouth } from './render-mouth.ts';
import { gapsOf, MouthMemory } from './rest-mouth.ts';

const MEDIA = join(import.meta.dirname, '..', '..', '..', 'media');
const SIZE = 512;
const SAY: MouthCommand = { openness: 0, spread: 0, rounding: 0, closed: false };

interface Still {
  readonly data: Uint8Array;
  readonly face: Face;
}

let finder: FaceFinder;
const stills = new Map<string, Still>();

beforeAll(async () => {
  const [blazeface, facemesh] = await Promise.all([openSession('blazeface'), openSession('facemesh')]);
  finder = new FaceFinder({ blazeface, facemesh });
  for (const name of ['astronaut.png', 'grace_hopper.jpg']) {
    const picture = sharp(join(MEDIA, name)).removeAlpha().toColourspace('srgb');
    const data = new Uint8Array(await picture.resize(SIZE, SIZE, { position: 'top' }).raw().toBuffer());
    const [face] = await finder.find({ width: SIZE, height: SIZE, channels: 3, data }, () => undefined);
    if (!face) throw new Error(`no face in ${name}`);
    stills.set(name, { data: rgbToYuv(data, SIZE, SIZE), face });
  }
}, 60_000);

function still(name: string): Still {
  return stills.get(name) as Still;
}

function say(name: string, command: MouthCommand): { data: Uint8Array; rect: Rect } {
  const data = still(name).data.slice();
  const frame = { width: SIZE, height: SIZE, data };
  return { data, rect: renderMouth(frame, still(name).face, command, new MouthMemory(), 0.04) };
}

/** Returns what the mesh network measures in a frame: opening and chin, in IOD. */
async function seen(
  name: string,
  data: Uint8Array,
): Promise<{ aperture: number; width: number; chin: number }> {
  const picture = { width: SIZE, height: SIZE, channels: 3 as const, data: yuvToRgb(data, SIZE, SIZE) };
  const { points } = await finder.refit(picture, still(name).face);
  const own = toFaceFrame(faceFrame(points), points);
  const lips = ringsOf(own);
  return {
    aperture: gapsOf(lips)[4] as number,
    width: (lips[20] as number) - (lips[0] as number),
    chin: own[152 * 3 + 1] as number,
  };
}

describe.each(['astronaut.png', 'grace_hopper.jpg'])('mouth of %s', (name) => {
  it('opens as far as it is told, and the chin goes along', async () => {
    const shut = await seen(name, say(name, { ...SAY, closed: true }).data);
    const half = await seen(name, say(name, { ...SAY, openness: 0.12 }).data);
    const wide = await seen(name, say(name, { ...SAY, openness: 0.24 }).data);
    expect(shut.aperture).toBeLessThan(0.035);
    expect(half.aperture).toBeGreaterThan(0.07);
    expect(half.aperture).toBeLessThan(0.18);
    expect(wide.aperture).toBeGreaterThan(0.17);
    expect(wide.chin - shut.chin).toBeGreaterThan(0.05);
  });

  it('spreads and purses the lips', async () => {
    const spread = await seen(name, say(name, { ...SAY, openness: 0.06, spread: 1 }).data);
    const pursed = await seen(name, say(name, { ...SAY, openness: 0.06, rounding: 1 }).data);
    expect(spread.width / pursed.width).toBeGreaterThan(1.12);
  });

  it('changes nothing outside the part it names, nor the nose and the eyes', () => {
    const before = still(name).data;
    const { data, rect } = say(name, { ...SAY, openness: 0.2, rounding: 0.5 });
    const { face } = still(name);
    const lidY = Math.max(...[145, 374].map((lid) => face.points[lid * 3 + 1] as number));
    const step = (at: number): number => at - (at % 2);
    expect(rect.y).toBeGreaterThan(lidY + 0.05 * face.width);
    let changed = 0;
    for (let y = 0; y < SIZE; y++) {
      for (let x = 0; x < SIZE; x++) {
        const inside = x >= rect.x && x < rect.x + rect.width && y >= rect.y && y < rect.y + rect.height;
        const luma = y * SIZE + x;
        const chroma = SIZE * SIZE + (step(y) / 2) * (SIZE / 2) + step(x) / 2;
        const same =
          data[luma] === before[luma] &&
          data[chroma] === before[chroma] &&
          data[chroma + (SIZE * SIZE) / 4] === before[chroma + (SIZE * SIZE) / 4];
        if (same) continue;
        changed++;
        if (!inside) expect.fail(`changed at ${x},${y}, outside ${JSON.stringify(rect)}`);
      }
    }
    expect(changed).toBeGreaterThan(1000);
  });

  it('replaces the motion that the frame had', async () => {
    // A frame of a talking face whose mouth is wide open while the new sound has closed lips.
    const open = say(name, { ...SAY, openness: 0.24 }).data;
    const picture = { width: SIZE, height: SIZE, channels: 3 as const, data: yuvToRgb(open, SIZE, SIZE) };
    const face = await finder.refit(picture, still(name).face);
    const data = open.slice();
    const memory = new MouthMemory();
    renderMouth({ width: SIZE, height: SIZE, data }, face, { ...SAY, closed: true }, memory, 0.04);
    const shut = await seen(name, say(name, { ...SAY, closed: true }).data);
    const now = await seen(name, data);
    expect(now.aperture).toBeLessThan(0.06);
    expect(Math.abs(now.chin - shut.chin)).toBeLessThan(0.05);
  });
});
