import { smoothstep } from '@semblance/vision/plane/plane';
import type { MouthColours } from './mouth-colours.ts';

/** Gaps between upper teeth from the middle outwards, in IOD (widths of 8.5, 6.5, 7.5, 7 and 7 mm at 63 mm). */
const UPPER_GAPS = [0, 0.132, 0.236, 0.352, 0.46, 0.57];
const LOWER_GAPS = [0, 0.084, 0.175, 0.28, 0.39, 0.5];
/** By how much each upper tooth is shorter than the middle ones, in IOD, and the light of each tooth. */
const SHORTER = [0, 0.012, 0.004, 0.012, 0.02];
const LIGHT = [1, 0.97, 0.92, 0.87, 0.82];
/** Depth of the dark between two teeth, and its width in IOD. */
const SEAM = { dark: 0.26, width: 0.009 };
/** Light of teeth against that of the skin: the whites of the eyes tell it, but lie in the shade of lids and lenses. */
const TEETH = { least: 0.96, most: 1.35 } as const;
/** Largest visible height of the upper and lower teeth beyond the lips, in IOD (9 and 2.5 mm at 63 mm). */
const MAX_SHOWN = { upper: 0.14, lower: 0.04 };
/** Least visible height of the upper teeth in a wide open mouth (3 mm). */
const LEAST_SHOWN = 0.05;
/** Height of the tongue's back over the lower lip: share of the opening, and what it is at most in a wide one. */
const TONGUE = { share: 0.63, least: 0.1, more: 0.38 };
/** Half the width of the tongue as a share of that of the mouth, and that of its groove in IOD. */
const TONGUE_WIDTH = 0.84;
const GROOVE = 0.045;
/** Light of the throat against the darkest of the face. */
const DEEPER = 0.7;
/** Power of its luma by which the colour of flesh decreases: dark flesh is redder for its luma. */
const REDDER = 0.5;
/** Redness of lips against that of skin beyond which they are painted. */
const PAINTED = 1.25;

/** A place in an open mouth. Lengths are in IOD. */
export interface Place {
  /** To the right of the middle of the mouth. */
  x: number;
  /** Distance from the middle as a share of half the mouth's width. */
  across: number;
  fromTop: number;
  fromBottom: number;
  gap: number;
}

/** What is drawn of a mouth that its still does not show: teeth, tongue and the dark behind, in the still's tones. */
export class DrawnMouth {
  /** Luma above black of teeth, of the throat, and of the front of the tongue. */
  readonly #teeth: number;
  readonly #deep: number;
  readonly #front: number;
  readonly #skin: number;
  /** Colour of flesh as light as the skin, and of teeth. */
  readonly #flesh: readonly [number, number];
  readonly #enamel: readonly [number, number];
  /** Half the width of an edge, and deviation of the still's blur, in IOD. */
  readonly soft: number;
  readonly #blur: number;

  /** @param pixel size of a pixel of the still, in IOD */
  constructor({ skin, lips, whites, black, blur }: MouthColours, pixel: number) {
    const light = Math.max(12, skin[0] - 16);
    this.#skin = light;
    this.#teeth = Math.min(TEETH.most * light, Math.max(TEETH.least * light, whites - 16));
    this.#deep = Math.min(0.5 * light, Math.max(0.07 * light, DEEPER * (black - 16)));
    const wet = Math.max(0.7 * light, 1.05 * (lips[0] - 16));
    this.#front = Math.max(this.#deep + 0.2 * light, Math.min(0.82 * light, wet));
    // Flesh is redder than skin. Its colour is that of skin and lips, so a grey photograph has a grey mouth.
    const [blue, red] = [skin[1] - 128, skin[2] - 128];
    const pink = Math.min(PAINTED * Math.abs(red), lips[2] - 128);
    this.#flesh = [(0.8 * blue + Math.max(-Math.abs(blue), lips[1] - 128)) / 2, (1.5 * red + 1.1 * pink) / 2];
    this.#enamel = [0.4 * blue, 0.36 * red];
    this.#blur = blur * pixel;
    this.soft = Math.max(0.008, 0.6 * pixel, 0.9 * this.#blur);
  }

  /** Writes what lies behind the teeth: cheeks and palate that lose themselves in the dark, and the tongue. */
  depths(out: Float32Array, { x, across, fromBottom, gap }: Place): void {
    const share = Math.min(1, Math.max(0, fromBottom / gap));
    // A slightly open mouth gets less light than a wide open one.
    const lit = 0.75 + 0.25 * smoothstep(0.03, 0.2, gap);
    const corner = 1 - 0.7 * smoothstep(0.35, 1, across);
    const wall = (0.02 + 0.45 * (1 - share) ** 1.3) * corner;
    const aside = Math.min(1, across / TONGUE_WIDTH) ** 2;
    const high = Math.min(TONGUE.share * gap, TONGUE.least + TONGUE.more * gap) * Math.sqrt(1 - aside);
    const back = fromBottom / Math.max(1e-3, high);
    const tongue = smoothstep(0.07, 0.2, gap) * (1 - smoothstep(0.8, 1.2, back)) * (1 - aside ** 6);
    // Light falls on its front; its back turns away, and its tip lies in the shadow of the lower lip.
    const along = (1 - 0.9 * smoothstep(0.2, 1.14, back)) * (0.8 + 0.2 * smoothstep(0, 0.25, back));
    const groove = 1 - 0.16 * Math.exp(-((x / GROOVE) ** 2)) * smoothstep(0.15, 0.6, back);
    const shone = along * groove * (1 - 0.5 * aside ** 1.5);
    this.#fleshInto(out, this.#deep + (this.#front - this.#deep) * lit * (wall + (shone - wall) * tongue));
  }

  /** Writes flesh of a luma above black. */
  #fleshInto(out: Float32Array, luma: number): void {
    const colour = (luma / this.#skin) ** REDDER;
    out[0] = 16 + luma;
    out[1] = 128 + this.#flesh[0] * colour;
    out[2] = 128 + this.#flesh[1] * colour;
  }

  /** Mixes in the edge of the lower teeth, which only a wide open mouth lets see. */
  lowerTeeth(out: Float32Array, { x, across, fromBottom, gap }: Place): void {
    const shown = MAX_SHOWN.lower * smoothstep(0.22, 0.38, gap);
    if (shown < 0.004) return;
    const { light, rounding } = this.#tooth(x, LOWER_GAPS, 0.006);
    const edge = shown - 0.02 * across * across - rounding;
    const share = smoothstep(-this.soft, this.soft, edge - fromBottom) * (1 - smoothstep(0.3, 0.75, across));
    this.#enamelInto(out, 0.7 * light * (1 - 0.4 * across), 0.7 * share);
  }

  /** Mixes in the upper teeth. @param edge how far the edge of the middle ones is below the place */
  upperTeeth(out: Float32Array, { x, across, fromTop, gap }: Place, edge: number): void {
    const { light, rounding, shorter } = this.#tooth(x, UPPER_GAPS, 0.014);
    const below = edge - 0.04 * across * across - rounding - shorter;
    const share = smoothstep(-this.soft, this.soft, below) * (1 - smoothstep(0.72, 1, across));
    if (share === 0) return;
    const lit = 0.88 + 0.12 * smoothstep(0.02, 0.14, gap);
    // The upper lip shades them; their own edges are thin and let the dark through.
    const lip = 0.78 + 0.22 * smoothstep(0, 0.05, fromTop);
    const thin = 0.9 + 0.1 * smoothstep(0, 0.025, below);
    this.#enamelInto(out, lit * lip * thin * light * (1 - 0.55 * across ** 2.2), share);
  }

  /** Returns how far the teeth reach below the upper lip in the middle. @param own where they end on their own */
  static shown(own: number, gap: number): number {
    return Math.min(Math.max(own, leastShown(gap)), MAX_SHOWN.upper);
  }

  #enamelInto(out: Float32Array, light: number, share: number): void {
    out[0] = mixed(out[0] as number, 16 + this.#teeth * light, share);
    // Colour decreases with light: a dark tooth with the colour of a lit one would look olive.
    out[1] = mixed(out[1] as number, 128 + this.#enamel[0] * light, share);
    out[2] = mixed(out[2] as number, 128 + this.#enamel[1] * light, share);
  }

  /** Returns light, rounding and shortness of a row of teeth at a distance from its middle. */
  #tooth(x: number, gaps: readonly number[], round: number) {
    const from = Math.abs(x);
    let k = 0;
    while (k + 2 < gaps.length && from > (gaps[k + 1] as number)) k++;
    const a = gaps[k] as number;
    const b = gaps[k + 1] as number;
    const t = Math.min(1, Math.max(0, (from - a) / (b - a)));
    const edge = Math.min(t, 1 - t) * (b - a);
    // Blur makes a seam wider and less deep.
    const width = Math.hypot(SEAM.width, 1.4 * this.#blur);
    const seam = (SEAM.dark * SEAM.width) / width;
    return {
      light: (LIGHT[k] as number) * (1 - seam * Math.exp(-((edge / width) ** 2))),
      rounding: round * (2 * t - 1) ** 4,
      shorter: SHORTER[k] as number,
    };
  }
}

/** Returns how much of the upper teeth shows at least below the upper lip. @param gap opening in the middle */
export function leastShown(gap: number): number {
  return LEAST_SHOWN * smoothstep(0.1, 0.25, gap);
}

export function mixed(a: number, b: number, share: number): number {
  return a + (b - a) * share;
}
