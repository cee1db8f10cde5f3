import { smoothstep } from '@semblance/vision/plane/plane';
import { clamp, LIGHT, luma } from './light.ts';

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
