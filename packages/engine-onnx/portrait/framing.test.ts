import { type Face, faceFromPoints } from '@semblance/vision/face-mesh';
import { FACE_OVAL, LEFT_BROW, LEFT_EYE, RIGHT_BROW, RIGHT_EYE } from '@semblance/vision/face-regions';
import { type Point, toCrop } from '@semblance/vision/picture';
import { describe, expect, it } from 'vitest';
import { driverSquare, meanSquare, opennessOf, stillCrop } from './framing.ts';

/**
 * Returns a drawn face: an oval of 200 × 280 around (300, 300) with brows at 240, rotated clockwise about (300,
 * 300).
 */
function drawn(tilt: number): Face {
  const points = new Float32Array(468 * 3);
  const put = (index: number, x: number, y: number): void => {
    const [dx, dy] = [x - 300, y - 300];
    points[index * 3] = 300 + Math.cos(tilt) * dx - Math.sin(tilt) * dy;
    points[index * 3 + 1] = 300 + Math.sin(tilt) * dx + Math.cos(tilt) * dy;
  };
  for (let i = 0; i < 468; i++) put(i, 300, 300);
  for (const [i, index] of FACE_OVAL.entries()) {
    const angle = (2 * Math.PI * i) / FACE_OVAL.length;
    put(index, 300 + 100 * Math.sin(angle), 300 - 140 * Math.cos(angle));
  }
  for (const [brow, x] of [
    [RIGHT_BROW, 260],
    [LEFT_BROW, 340],
  ] as const) {
    for (const index of brow) put(index, x, 240);
  }
  for (const [eye, x] of [
    [RIGHT_EYE, 260],
    [LEFT_EYE, 340],
  ] as const) {
    for (const index of eye) put(index, x, 270);
  }
  // Corners and lids of the eyes, corners and middle of the mouth.
  for (const [index, x, y] of [
    ...[
      [33, 245, 270] as const,
      [133, 275, 270] as const,
      [159, 260, 265] as const,
      [145, 260, 275] as const,
    ],
    ...[
      [362, 325, 270] as const,
      [263, 355, 270] as const,
      [386, 340, 267] as const,
      [374, 340, 273] as const,
    ],
    ...[[61, 270, 370] as const, [291, 330, 370] as const, [13, 300, 364] as const, [14, 300, 376] as const],
  ]) {
    put(index, x, y);
  }
  return faceFromPoints(points, 1);
}

/** The face has its brows at 240, its chin at 440 and a width of 200: a square of 200 around (300, 340). */
describe('a face is framed as LivePortrait frames it', () => {
  it.each([0, 0.3, -0.5])('in a still, upright, tilted by %f', (tilt) => {
    const face = drawn(tilt);
    const crop = stillCrop({ mesh: face, five: [] }, 256);
    expect(crop.scale * 256).toBeCloseTo(2.3 * 200, 0);
    expect(crop.angle).toBeCloseTo(tilt, 5);
    // The middle of the face lies an eighth of the crop below the crop's middle.
    const [x, y] = [300 - Math.sin(tilt) * 40, 300 + Math.cos(tilt) * 40];
    const middle = toCrop(crop, x, y);
    expect(middle.x).toBeCloseTo(128, 0);
    expect(middle.y).toBeCloseTo(128 + 32, 0);
  });

  it('in a driver, as it is tilted, and all frames alike', () => {
    const upright = driverSquare(drawn(0));
    expect(upright.side).toBeCloseTo(2.2 * 200, 0);
    expect(upright.center.x).toBeCloseTo(300, 0);
    expect(upright.center.y).toBeCloseTo(340 - 44, 0);
    const tilted = driverSquare(drawn(Math.PI / 2));
    expect(tilted.side).toBeCloseTo(upright.side, 1);
    expect(tilted.center.x).toBeCloseTo(300 + 4, 0);
    expect(tilted.center.y).toBeCloseTo(300, 0);
    expect(meanSquare([upright, tilted])).toEqual({
      center: { x: expect.closeTo(302, 0), y: expect.closeTo(298, 0) },
      side: expect.closeTo(440, 0),
    });
  });

  it('by five points where there is no mesh', () => {
    // The points follow FFHQ's template for 512 pixels, 90 pixels to the right.
    const five = [
      [193, 240],
      [319, 240],
      [257, 314],
      [201, 371],
      [313, 371],
    ].map(([x = 0, y = 0]): Point => ({ x: x + 90, y }));
    const crop = stillCrop({ mesh: undefined, five }, 512);
    expect(crop.scale).toBeCloseTo(1.5, 1);
    expect(crop.angle).toBeCloseTo(0, 1);
    const nose = toCrop(crop, 347, 314);
    expect(Math.hypot(nose.x - 257, nose.y - 314)).toBeLessThan(2);
  });

  it('tells how far eyes and lips are open', () => {
    for (const tilt of [0, 0.4]) {
      expect(opennessOf(drawn(tilt))).toEqual({
        eyes: [expect.closeTo(10 / 30, 3), expect.closeTo(6 / 30, 3)],
        lips: expect.closeTo(12 / 60, 3),
      });
    }
  });
});
