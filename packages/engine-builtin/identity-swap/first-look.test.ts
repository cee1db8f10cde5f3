import { POINTS } from '@semblance/vision/face-mesh';
import { LEFT_EYE, RIGHT_EYE } from '@semblance/vision/face-regions';
import { describe, expect, it } from 'vitest';
import { hairBesideNeck } from './first-look.ts';

const [WIDTH, HEIGHT] = [160, 200];
const IOD = 40;
/** Middle of the eyes in pixels of the frame, and the chin below it. */
const EYES = { x: 160, y: 110 };
const CHIN = EYES.y + 1.75 * IOD;

/** Draws the mask of a person whose hair hangs to a height below the eyes, in eye distances. */
function mask(hairEnd: number): { width: number; height: number; data: Uint8Array } {
  const data = new Uint8Array(WIDTH * HEIGHT);
  for (let i = 0; i < data.length; i++) {
    const u = Math.abs(2 * (i % WIDTH) + 1 - EYES.x) / IOD;
    const v = (2 * Math.floor(i / WIDTH) + 1 - EYES.y) / IOD;
    const trunk = v > 2.9 + 0.25 * u && u < 3;
    const head = Math.hypot(u / 1.2, (v - 0.4) / 1.5) < 1;
    if (trunk || head || (u < 0.8 && v > 0) || (u < 1.9 && v > -0.5 && v < hairEnd)) data[i] = 255;
  }
  return { width: WIDTH, height: HEIGHT, data };
}

function face(): Float32Array {
  const points = new Float32Array(POINTS * 3);
  const put = (i: number, x: number, y: number): void => points.set([x, y, 0], i * 3);
  for (let i = 0; i < POINTS; i++) put(i, EYES.x, EYES.y + 0.8 * IOD);
  for (const i of RIGHT_EYE) put(i, EYES.x - IOD / 2, EYES.y);
  for (const i of LEFT_EYE) put(i, EYES.x + IOD / 2, EYES.y);
  put(152, EYES.x, CHIN);
  return points;
}

const BODY = {
  shoulders: { x: EYES.x, y: EYES.y + 3.6 * IOD },
  shoulderSide: { x: 2.2 * IOD, y: 0 },
  head: { x: EYES.x, y: EYES.y },
};

describe('hair beside the neck', () => {
  it('is all of the band where it hangs to the shoulders', () => {
    expect(hairBesideNeck(mask(3), face(), BODY)).toBeGreaterThan(0.8);
  });

  it('is next to nothing where it ends at the ears', () => {
    expect(hairBesideNeck(mask(0.5), face(), BODY)).toBeLessThan(0.1);
  });

  it('is a part of the band where it ends at the jaw', () => {
    const share = hairBesideNeck(mask(1.3), face(), BODY);
    expect(share).toBeGreaterThan(0.15);
    expect(share).toBeLessThan(0.6);
  });
});
