import { type Bundle, blur, type Plane, plane, shrinkPlane } from '@semblance/vision/plane/plane';

/** Factor by which the light grid is coarser than the work grid; light is smooth. */
const COARSENESS = 4;

export type Channels = readonly [Plane, Plane, Plane];

/** Difference of the light on the target from the light on the source, on a coarse grid. */
export interface LightField {
  /** The fields of {@link LIGHT}. */
  readonly values: Bundle;
  /** Work pixels per grid pixel. */
  readonly coarseness: number;
}

/** Indices of the fields in a light field. */
export const LIGHT = {
  /** Strength of the source's relief in the result. */
  relief: 0,
  /** Ratio of brightness, target to source. */
  gain: 1,
  /** Ratio of colour balance, target to source: red and blue relative to brightness. */
  redGain: 2,
  blueGain: 3,
  /** Brightness of the source's skin. */
  sourceLevel: 4,
  /** Three fields: the offset of each channel of the source after its relief has been scaled. */
  offset: 5,
  /** Three fields: the target's skin. */
  skin: 8,
  count: 11,
} as const;

export interface LightInputs {
  /** Red, green and blue of the target, and of the source that replaces it, on the work grid. */
  readonly own: Channels;
  readonly other: Channels;
  /** Weight of each pixel in the comparison: 1 on skin that both faces show, 0 elsewhere. */
  readonly weight: Plane;
  /** From 1 near the edge of the replaced area, where the light must match closely, to 0 well inside. */
  readonly edge: Plane;
  /**
   * From 1 near that edge, where the relief is as weak as the target's, to 0 well inside, where it is the source's.
   */
  readonly rim: Plane;
  readonly faceWidth: number;
  /** Ratio of the target's relief to the source's. */
  readonly relief: number;
}

/**
 * Widths of the neighbourhoods as shares of the face width: brightness inside the face, colour inside it, both at
 * the edge.
 */
const BROAD = 0.3;
const COLOUR = 0.2;
const NARROW = 0.06;
/** Smallest and largest factor on the relief of a face (pores, wrinkles, noise), in any light. */
const RELIEF_LIMITS = [0.6, 1.25] as const;
/** The same limits well inside the face, where the features lie. */
const INNER_RELIEF_LIMITS = [0.25, 1] as const;
/** Largest ratio of relief to light: shadows and wrinkles are never deeper than the target's light makes them. */
const MAX_CONTRAST = 0.9;
const GAIN_LIMITS = [0.03, 3] as const;
const BALANCE_LIMITS = [0.3, 3] as const;

interface LocalMeans {
  readonly own: Channels;
  readonly other: Channels;
}

/**
 * Compares the light on two faces by weighted local means (normalized convolution, Knutsson and Westin 1993).
 * Inside the face brightness is compared over a wide neighbourhood, so that the new face keeps its own relief. At
 * its edge it is compared over a narrow one, so that no seam shows. Colour is compared over a narrower one
 * everywhere, because coloured light falls in patches.
 */
export function matchLight(inputs: LightInputs): LightField {
  const weight = shrinkPlane(inputs.weight, COARSENESS);
  const edge = blur(shrinkPlane(inputs.edge, COARSENESS), 1);
  const rim = blur(shrinkPlane(inputs.rim, COARSENESS), 1);
  const own = inputs.own.map((channel) => weighted(channel, inputs.weight));
  const other = inputs.other.map((channel) => weighted(channel, inputs.weight));
  const faceWidth = inputs.faceWidth / COARSENESS;
  const means = (sigma: number): LocalMeans => {
    const known = blur(weight, sigma * faceWidth);
    const overall = Math.max(sum(weight), 1e-6);
    const local = (values: Plane): Plane => {
      const out = blur(values, sigma * faceWidth);
      const mean = sum(values) / overall;
      for (let i = 0; i < out.data.length; i++) {
        out.data[i] = ((out.data[i] as number) + 0.01 * mean) / ((known.data[i] as number) + 0.01);
      }
      return out;
    };
    return { own: own.map(local) as unknown as Channels, other: other.map(local) as unknown as Channels };
  };
  const broad = means(BROAD);
  const colour = means(COLOUR);
  const narrow = means(NARROW);
  const { width, height } = weight;
  const fields = LIGHT.count;
  const data = new Float32Array(width * height * fields);
  for (let i = 0; i < edge.data.length; i++) {
    const ownLevel = level(broad.own, i);
    const otherLevel = level(broad.other, i);
    const ratio = (ownLevel + 3) / (otherLevel + 3);
    const gain = clamp(ratio, GAIN_LIMITS);
    const most = ratio * MAX_CONTRAST;
    const inside = Math.min(
      most,
      clamp(gain * Math.max(inputs.relief, INNER_RELIEF_LIMITS[0]), INNER_RELIEF_LIMITS),
    );
    const outside = Math.min(most, clamp(gain * inputs.relief, RELIEF_LIMITS));
    const relief = inside + (outside - inside) * (rim.data[i] as number);
    const o = i * fields;
    data[o + LIGHT.gain] = gain;
    data[o + LIGHT.relief] = relief;
    data[o + LIGHT.sourceLevel] = otherLevel;
    data[o + LIGHT.redGain] = balance(colour, 0, i);
    data[o + LIGHT.blueGain] = balance(colour, 2, i);
    const bright = ownLevel - relief * otherLevel - (level(colour.own, i) - relief * level(colour.other, i));
    const e = edge.data[i] as number;
    for (const c of [0, 1, 2] as const) {
      const inner = at(colour.own, c, i) - relief * at(colour.other, c, i) + bright;
      const outer = at(narrow.own, c, i) - relief * at(narrow.other, c, i);
      data[o + LIGHT.offset + c] = inner + (outer - inner) * e;
      data[o + LIGHT.skin + c] = at(colour.own, c, i);
    }
  }
  return { values: { width, height, fields, data }, coarseness: COARSENESS };
}

/** Returns the ratio of a channel in the target's skin to that in the source's, relative to their brightness. */
function balance(means: LocalMeans, channel: 0 | 2, i: number): number {
  const own = (at(means.own, channel, i) + 6) / (level(means.own, i) + 6);
  const other = (at(means.other, channel, i) + 6) / (level(means.other, i) + 6);
  return clamp(own / other, BALANCE_LIMITS);
}

function at(channels: Channels, channel: 0 | 1 | 2, i: number): number {
  return channels[channel].data[i] as number;
}

function level(channels: Channels, i: number): number {
  return luma(at(channels, 0, i), at(channels, 1, i), at(channels, 2, i));
}

export function clamp(value: number, limits: readonly [number, number]): number {
  return Math.min(limits[1], Math.max(limits[0], value));
}

export function luma(r: number, g: number, b: number): number {
  return 0.299 * r + 0.587 * g + 0.114 * b;
}

function weighted(channel: Plane, weight: Plane): Plane {
  const out = plane(channel.width, channel.height);
  for (let i = 0; i < out.data.length; i++) {
    out.data[i] = (channel.data[i] as number) * (weight.data[i] as number);
  }
  return shrinkPlane(out, COARSENESS);
}

function sum(values: Plane): number {
  let total = 0;
  for (const value of values.data) total += value;
  return total;
}

/** Reads the light at a place of the work grid. */
export function readLight(light: LightField, x: number, y: number, out: Float32Array): void {
  const { values, coarseness } = light;
  const { width, height, fields, data } = values;
  const px = Math.min(width - 1, Math.max(0, x / coarseness - 0.5));
  const py = Math.min(height - 1, Math.max(0, y / coarseness - 0.5));
  const x0 = px | 0;
  const y0 = py | 0;
  const u = px - x0;
  const v = py - y0;
  const a = (y0 * width + x0) * fields;
  const right = x0 + 1 < width ? fields : 0;
  const down = y0 + 1 < height ? width * fields : 0;
  for (let f = 0, i = a; f < fields; f++, i++) {
    const top = (data[i] as number) * (1 - u) + (data[i + right] as number) * u;
    const bottom = (data[i + down] as number) * (1 - u) + (data[i + down + right] as number) * u;
    out[f] = top * (1 - v) + bottom * v;
  }
}
