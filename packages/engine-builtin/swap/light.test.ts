import { type Plane, plane } from '@semblance/vision/plane/plane';
import { describe, expect, it } from 'vitest';
import { LIGHT, matchLight, relight } from './light.ts';

const SIZE = 80;

function even(value: number): Plane {
  return plane(SIZE, SIZE, value);
}

/**
 * Returns the strength of the relief in the middle of a face, on a target that is darker or brighter than the
 * source by `light`.
 */
function reliefAt(light: number): number {
  const other = [even(180), even(140), even(120)] as const;
  const own = [even(180 * light), even(140 * light), even(120 * light)] as const;
  const { values } = matchLight({
    own,
    other,
    weight: even(1),
    edge: even(0),
    rim: even(0),
    faceWidth: SIZE,
    relief: 1,
  });
  const at = (Math.floor(values.height / 2) * values.width + Math.floor(values.width / 2)) * values.fields;
  return values.data[at + LIGHT.relief] as number;
}

describe('the light of a swap', () => {
  it("keeps most of the source's relief under light like its own, and never makes it deeper", () => {
    expect(reliefAt(1)).toBeCloseTo(0.9, 2);
    expect(reliefAt(1.5)).toBeLessThanOrEqual(1);
    expect(reliefAt(3)).toBeLessThanOrEqual(1);
  });

  it('makes shadows and wrinkles in the dark no deeper than that light makes them', () => {
    for (const light of [0.15, 0.25, 0.4, 0.7]) {
      expect(reliefAt(light)).toBeGreaterThan(0.8 * light);
      expect(reliefAt(light)).toBeLessThan(1.01 * light);
    }
  });

  it('never makes eyes glow in a face in the dark', () => {
    const [other, own] = [
      [even(180), even(140), even(120)] as const,
      [even(18), even(14), even(12)] as const,
    ];
    const { values } = matchLight({
      own,
      other,
      weight: even(1),
      edge: even(0),
      rim: even(0),
      faceWidth: SIZE,
      relief: 1,
    });
    const at = (Math.floor(values.height / 2) * values.width + Math.floor(values.width / 2)) * values.fields;
    const light = values.data.slice(at, at + LIGHT.count);
    const eye = Float32Array.of(200, 195, 190);
    relight(light, Float32Array.of(1, 0, 1), false, eye);
    const skin = 0.299 * 18 + 0.587 * 14 + 0.114 * 12;
    // In daylight the white of an eye is a third brighter than the skin beside it.
    expect(eye[1] as number).toBeLessThan(1.9 * skin);
  });

  it('makes shadows of skin redder than the skin, as those of skin are, and those of grey skin grey', () => {
    const shaded = (skin: readonly [number, number, number]): Float32Array => {
      const planes = skin.map(even) as unknown as readonly [Plane, Plane, Plane];
      const lighting = { weight: even(1), edge: even(0), rim: even(0), faceWidth: SIZE, relief: 1 };
      const { values } = matchLight({ own: planes, other: planes, ...lighting });
      const at =
        (Math.floor(values.height / 2) * values.width + Math.floor(values.width / 2)) * values.fields;
      const rgb = Float32Array.from(skin, (value) => 0.7 * value);
      relight(values.data.slice(at, at + LIGHT.count), Float32Array.of(0, 0, 0), false, rgb);
      return rgb;
    };
    const [r, g, b] = shaded([200, 150, 125]) as unknown as [number, number, number];
    expect(r / g).toBeGreaterThan(1.06 * (200 / 150));
    expect(b / g).toBeLessThan(0.97 * (125 / 150));
    const grey = shaded([150, 150, 150]);
    expect(Math.max(...grey) - Math.min(...grey)).toBeLessThan(0.5);
  });

  it.each([
    ['neon', [220, 60, 170]],
    ['grey', [140, 140, 140]],
  ])('gives %s lips the colour of lips beside the skin of the target', (_, colour) => {
    const skin = [even(200), even(150), even(125)] as const;
    const lighting = { weight: even(1), edge: even(0), rim: even(0), faceWidth: SIZE, relief: 1 };
    const { values } = matchLight({ own: skin, other: skin, ...lighting });
    const at = (Math.floor(values.height / 2) * values.width + Math.floor(values.width / 2)) * values.fields;
    const lips = Float32Array.from(colour);
    relight(values.data.slice(at, at + LIGHT.count), Float32Array.of(0, 1, 1), false, lips);
    const [r, g, b] = lips as unknown as [number, number, number];
    const level = 0.299 * r + 0.587 * g + 0.114 * b;
    const ratio = (level + 4) / (0.299 * 200 + 0.587 * 150 + 0.114 * 125 + 4);
    const redder = (r - g - 50 * ratio) / (level + 4);
    const bluer = (b - (r + g) / 2 + 50 * ratio) / (level + 4);
    expect(redder).toBeGreaterThan(0.035);
    expect(redder).toBeLessThan(0.305);
    expect(bluer).toBeGreaterThan(-0.125);
    expect(bluer).toBeLessThan(0.045);
  });
});
