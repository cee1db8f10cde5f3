import { type Bundle, blur, type Plane, plane, shrinkPlane, smoothstep } from '@semblance/vision/plane/plane';

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

function clamp(value: number, limits: readonly [number, number]): number {
  return Math.min(limits[1], Math.max(limits[0], value));
}

export function luma(r: number, g: number, b: number): number {
  return 0.299 * r + 0.587 * g + 0.114 * b;
}

/**
 * Share of the skin colour that is taken from the target's skin, and the largest factor by which colour may get
 * stronger.
 */
const SKIN_COLOUR = 0.9;
/** The same share under coloured light. */
const CAST_COLOUR = 0.95;
const SATURATION_LIMIT = 1.25;
/**
 * Power of the brightness by which the colour of skin fades towards its shadows: they are redder than lit skin, as
 * light that comes out of skin is. Of 45 portraits the median is between 0.23 (red, green) and 0.64 (blue). Darker
 * than the second figure are hair and pupils.
 */
const SHADOW_COLOUR = 0.25;
const DEEP_SHADOW = 0.55;

/**
 * Least and most red beyond green, and blue beyond the mean of both, that lips have more than skin, as shares of
 * their brightness: those of most portraits without lipstick.
 */
const LIPS_RED = [0.04, 0.3] as const;
const LIPS_BLUE = [-0.12, 0.04] as const;

/** Largest ratio of the light on the eyes to the light on the skin. */
const EYE_BRIGHTER = 1.15;

/**
 * Brightness relative to the surrounding skin below which skin is a deep wrinkle, and the strength of its
 * softening.
 */
const DEEP = 0.82;
const SOFTENING = 2;

/**
 * Indices of the kinds of a pixel of the new face, each from 0 to 1. They are in a typed array, because each number
 * written into an object is a new object for the garbage collector.
 */
export const KIND = {
  /** Inside an eye, whose white and iris have colours of their own. */
  eye: 0,
  /** On the lips, which may have another colour than skin. */
  lips: 1,
  /** On a feature, which may be much darker than skin. */
  feature: 2,
  count: 3,
} as const;

/**
 * Lights one colour of the new face as the target was lit. Relief is added to the new local mean, because
 * multiplying it would amplify noise. Pixels much darker than the skin around them (pupils, brows, nostrils) are
 * multiplied, because adding would turn them grey. The colour of skin is held near the target's skin, so that
 * coloured light on the source leaves no patches.
 * @param light the fields of {@link LIGHT} at this place
 * @param kind the fields of {@link KIND}
 * @param grey whether the source has no colour
 */
export function relight(light: Float32Array, kind: Float32Array, grey: boolean, rgb: Float32Array): void {
  let r = rgb[0] as number;
  let g = rgb[1] as number;
  let b = rgb[2] as number;
  const relief = light[LIGHT.relief] as number;
  const gain = light[LIGHT.gain] as number;
  const red = (light[LIGHT.redGain] as number) - 1;
  const blue = (light[LIGHT.blueGain] as number) - 1;
  // Deep wrinkles would look drawn on under another light, so skin much darker than its surroundings is brightened.
  const own = luma(r, g, b) / ((light[LIGHT.sourceLevel] as number) + 1);
  const depth = (DEEP - own) * (1 - (kind[KIND.feature] as number));
  if (depth > 0) {
    const softer = (own + depth - depth / (1 + SOFTENING * depth)) / Math.max(own, 0.05);
    r *= softer;
    g *= softer;
    b *= softer;
  }
  const dark = 1 - smoothstep(0.35, 0.8, luma(r, g, b) / ((light[LIGHT.sourceLevel] as number) + 1));
  // The white of an eye follows the light where the two lights differ much in colour; otherwise it keeps its own
  // colour.
  const eye = kind[KIND.eye] as number;
  const lips = kind[KIND.lips] as number;
  const cast = smoothstep(0.1, 0.4, Math.max(Math.abs(red), Math.abs(blue)));
  const follow = 0.5 + 0.4 * cast;
  // In weak light eyes are a little brighter than the skin around them, but never glow.
  const eyeGain = eye > 0 ? Math.min(gain ** 0.8, EYE_BRIGHTER * gain) : gain;
  const share = Math.max(dark, 0.9 * eye);
  const level = gain * (1 - eye) + eyeGain * eye;
  const tint = gain * 0.7 * (1 - eye) + eyeGain * follow * eye;
  const o0 = mix(r, r * relief + (light[LIGHT.offset] as number), level + tint * red, share);
  const o1 = mix(g, g * relief + (light[LIGHT.offset + 1] as number), level, share);
  const o2 = mix(b, b * relief + (light[LIGHT.offset + 2] as number), level + tint * blue, share);
  // Colour is handled as differences from brightness: the pixel's own, and that of equally bright skin at this
  // place.
  const brightness = luma(o0, o1, o2);
  const k0 = light[LIGHT.skin] as number;
  const k1 = light[LIGHT.skin + 1] as number;
  const k2 = light[LIGHT.skin + 2] as number;
  const skinLevel = luma(k0, k1, k2);
  const ratio = (Math.max(0, brightness) + 4) / (skinLevel + 4);
  const fading = ratio * Math.max(DEEP_SHADOW, ratio) ** (SHADOW_COLOUR - 1);
  const s0 = (k0 - skinLevel) * fading;
  const s1 = (k1 - skinLevel) * fading;
  const s2 = (k2 - skinLevel) * fading;
  const skinHold = SKIN_COLOUR + (CAST_COLOUR - SKIN_COLOUR) * cast;
  const hold = grey ? 1 - 0.8 * eye : skinHold * (1 - lips) * (1 - 0.5 * eye);
  const c0 = (o0 - brightness) * (1 - hold) + s0 * hold;
  const c1 = (o1 - brightness) * (1 - hold) + s1 * hold;
  const c2 = (o2 - brightness) * (1 - hold) + s2 * hold;
  const strength = Math.sqrt(c0 * c0 + c1 * c1 + c2 * c2);
  const most =
    Math.sqrt(s0 * s0 + s1 * s1 + s2 * s2) * (SATURATION_LIMIT + 0.7 * lips) +
    8 +
    0.06 * eye * Math.max(0, brightness);
  const scale = strength > most ? most / strength : 1;
  rgb[0] = brightness + c0 * scale;
  rgb[1] = brightness + c1 * scale;
  rgb[2] = brightness + c2 * scale;
  if (lips > 0) holdLips(rgb, lips, (k0 - k1) * ratio, (k2 - (k0 + k1) / 2) * ratio);
}

/**
 * Brings the colour of lips between limits beside that of equally bright skin, so that they are neither grey nor
 * glaring.
 * @param lips share of lips in the pixel
 * @param skinRed red beyond green of that skin
 * @param skinBlue blue beyond the mean of both
 */
function holdLips(rgb: Float32Array, lips: number, skinRed: number, skinBlue: number): void {
  const [r, g, b] = rgb as unknown as [number, number, number];
  const brightness = luma(r, g, b);
  const unit = Math.max(0, brightness) + 4;
  const red = clamp(r - g, [skinRed + LIPS_RED[0] * unit, skinRed + LIPS_RED[1] * unit]);
  const blue = clamp(b - (r + g) / 2, [skinBlue + LIPS_BLUE[0] * unit, skinBlue + LIPS_BLUE[1] * unit]);
  // The one colour of this brightness with these differences.
  const green = brightness - 0.356 * red - 0.114 * blue;
  rgb[0] = r + lips * (green + red - r);
  rgb[1] = g + lips * (green - g);
  rgb[2] = b + lips * (green + red / 2 + blue - b);
}

function mix(v: number, added: number, factor: number, share: number): number {
  return added + (v * factor - added) * share;
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
