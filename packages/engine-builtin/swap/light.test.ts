import { type Plane, plane } from '@semblance/vision/plane/plane';
import { describe, expect, it } from 'vitest';
import { KIND, LIGHT, matchLight, relight } from './light.ts';

const SIZE = 80;

function even(value: number): Plane {
  return plane(SIZE, SIZE, value);
}

interface Relief {
  /** Relief of the face's forms, and of its pores and wrinkles. */
  readonly broad: number;
  readonly fine: number;
}

/**
 * Returns the strength of the relief in the middle of a face, on a target that is darker or brighter than the
 * source by `light`.
 */
function reliefAt(light: number): Relief {
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
  return { broad: values.data[at + LIGHT.relief] as number, fine: values.data[at + LIGHT.fine] as number };
}

describe('the light of a swap', () => {
  it("keeps the source's relief under light like its own", () => {
    expect(reliefAt(1)).toEqual({ broad: expect.closeTo(1, 1), fine: expect.closeTo(1, 1) });
    expect(reliefAt(0.7).broad).toBeCloseTo(1, 1);
  });

  it('makes shadows in the dark at most twice as deep as that light makes them', () => {
    for (const light of [0.15, 0.25, 0.4]) {
      expect(reliefAt(light).broad).toBeGreaterThan(light);
      expect(reliefAt(light).broad).toBeLessThan(2.1 * light);
    }
  });

  it('leaves pores and wrinkles hardly deeper than that light makes them, or they would look like a crust', () => {
    for (const light of [0.25, 0.4, 0.7]) {
      expect(reliefAt(light).fine).toBeGreaterThan(light);
      expect(reliefAt(light).fine).toBeLessThan(1.2 * light);
    }
  });

  it('lights a wrinkle by the fine relief, and the form that it lies on by the broad one', () => {
    const light = new Float32Array(LIGHT.count);
    light.set([0.9, 0.5, 1, 1, 120], LIGHT.relief);
    light.set([60, 60, 60], LIGHT.skin);
    light[LIGHT.fine] = 0.55;
    light[LIGHT.middle] = 120;
    const lit = (value: number): number => {
      const rgb = Float32Array.of(value, value, value);
      relight(light, new Float32Array(KIND.count), false, rgb);
      return rgb[1] as number;
    };
    expect(lit(130) - lit(120)).toBeCloseTo(10 * 0.55, 1);
    light[LIGHT.middle] = 130;
    const raised = lit(130);
    light[LIGHT.middle] = 120;
    expect(raised - lit(120)).toBeCloseTo(10 * 0.9, 1);
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
});
