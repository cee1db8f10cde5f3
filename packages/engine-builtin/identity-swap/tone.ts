import type { Plane } from '@semblance/vision/plane/plane';
import type { Planes } from '../animate/openings.ts';
import type { Cutout } from './cutout.ts';

/** Share of a difference in light that is applied; all of it would remove the character's own looks. */
const LIGHT_SHARE = 0.3;
const CAST_SHARE = 0.35;
const GAIN = [0.85, 1.12] as const;
const MAX_CAST = 6;
/** Rank of brightness that represents the light: the bright parts of a person show it. */
const LIGHT_RANK = 0.93;

/** Changes of a character for the light of a scene. */
export interface Tone {
  readonly gain: number;
  readonly u: number;
  readonly v: number;
}

/**
 * Computes the brightness and colour cast of a character in a scene: closer to the replaced person, with some of
 * the scene's cast.
 * @param distance of each chroma pixel from the person
 */
export function toneFor(cutout: Cutout, frame: Planes, distance: Plane): Tone {
  const person: number[] = [];
  let [u, v, count] = [0, 0, 0];
  const { width, height } = distance;
  for (let y = 0; y < height; y += 2) {
    for (let x = 0; x < width; x += 2) {
      const i = y * width + x;
      if (distance.data[i] === 0) person.push(frame.y.data[2 * (y * frame.y.width + x)] as number);
      else {
        u += frame.u.data[i] as number;
        v += frame.v.data[i] as number;
        count++;
      }
    }
  }
  const own: number[] = [];
  const { whole, alphas } = cutout;
  for (let i = 0; i < whole.y.data.length; i += 7) {
    if (alphas.some(({ data }) => (data[i] as number) > 0.9)) own.push(whole.y.data[i] as number);
  }
  const bounded = (value: number, most: number): number => Math.min(most, Math.max(-most, value));
  const light = (rank(person) - 16) / Math.max(1, rank(own) - 16);
  return {
    gain: person.length && own.length ? Math.min(GAIN[1], Math.max(GAIN[0], light ** LIGHT_SHARE)) : 1,
    u: count ? bounded(CAST_SHARE * (u / count - 128), MAX_CAST) : 0,
    v: count ? bounded(CAST_SHARE * (v / count - 128), MAX_CAST) : 0,
  };
}

function rank(values: number[]): number {
  values.sort((a, b) => a - b);
  return values[Math.floor(LIGHT_RANK * (values.length - 1))] ?? 16;
}

/** Returns the cut-out in another light. */
export function toned(cutout: Cutout, { gain, u, v }: Tone): Cutout {
  const each = (plane: Planes['y'], change: (value: number) => number): Planes['y'] => {
    const table = Uint8ClampedArray.from({ length: 256 }, (_, value) => change(value));
    const data = new Uint8Array(plane.data.length);
    for (let i = 0; i < data.length; i++) data[i] = table[plane.data[i] as number] as number;
    return { ...plane, data };
  };
  const all = (planes: Planes): Planes => ({
    y: each(planes.y, (value) => 16 + (value - 16) * gain),
    u: each(planes.u, (value) => value + u),
    v: each(planes.v, (value) => value + v),
  });
  return { ...cutout, whole: all(cutout.whole), armless: all(cutout.armless) };
}
