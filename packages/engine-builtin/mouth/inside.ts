import { smoothstep } from '@semblance/vision/plane/plane';
import type { Shader } from '../animate/openings.ts';
import { lipRows, RING_COUNT, RING_SIZE } from './lip-rings.ts';

type Yuv = readonly [number, number, number];

/** Length of the upper teeth below the line where the lips meet, in IOD (3 mm at 63 mm). */
const UPPER_SHOWN = 0.05;
/** Largest visible height of the lower teeth above the lower lip, in IOD. */
const LOWER_SHOWN = 0.032;
/** Gaps between teeth from the middle outwards, in IOD (8.5, 6.5, 7.5, 7 and 7 mm; below 5.5, 6, 7, 7 and 7 mm). */
const UPPER_GAPS = [0, 0.135, 0.238, 0.357, 0.468, 0.58];
const LOWER_GAPS = [0, 0.087, 0.182, 0.293, 0.404, 0.515];
/** Half width of the dark seam between two teeth, in IOD. */
const TOOTH_SEAM = 0.011;

export interface InsideOptions {
  /** Ring points now and at rest, in the face's own frame. */
  readonly lips: Float32Array;
  readonly rest: Float32Array;
  /** Colour of the cheeks, which shows the strength and colour of the light. */
  readonly skin: Yuv;
  /** Luma of this person's teeth, when they have been visible. */
  readonly teethLuma: number | undefined;
  /** Luma of black. */
  readonly black: number;
  /** Size of a pixel in the face's own frame: nothing finer is drawn. */
  readonly pixel: number;
}

/**
 * Returns the content between lips: the dark of the mouth, tongue and teeth. The upper teeth stay with the skull;
 * the lower ones and the tongue follow the jaw.
 * @param toOwn map from the frame to the plane of the mouth (the face's own frame)
 */
export function mouthInside(
  { lips, rest, skin, teethLuma, black, pixel }: InsideOptions,
  toOwn: (x: number, y: number, out: Float32Array) => void,
): Shader {
  const top = new Edge(lips, 'upper');
  const bottom = new Edge(lips, 'lower');
  const restTop = new Edge(rest, 'upper');
  const middle = (top.left + top.right) / 2;
  const half = Math.max(0.05, (top.right - top.left) / 2);
  const opening = bottom.middle - top.middle;
  const light = Math.max(12, skin[0] - black);
  // Flesh is redder than skin: it has less of the skin's blue difference and more of its red one.
  const tint = (blue: number, red: number): readonly [number, number] => [
    128 + blue * (skin[1] - 128),
    128 + red * (skin[2] - 128),
  ];
  const teeth: Yuv = [teethLuma ?? black + Math.min(196, 1.02 * light + 14), ...tint(0.45, 0.4)];
  const cavity: Yuv = [black + 0.1 * light, ...tint(0.35, 0.75)];
  const flesh: Yuv = [black + 0.5 * light, ...tint(0.6, 1.25)];
  const rimFlesh: Yuv = [black + 0.42 * light, ...tint(0.7, 1.25)];
  const edge = restTop.middle + UPPER_SHOWN;
  // A slightly open mouth gets less light than a wide one, and shows its teeth gradually.
  const lit = 0.72 + 0.28 * smoothstep(0.02, 0.12, opening);
  const ajar = smoothstep(0.012, 0.065, opening);
  const lowerShown = LOWER_SHOWN * smoothstep(0.07, 0.2, opening);
  const wet = smoothstep(0.1, 0.22, opening);
  const own = new Float32Array(2);
  const tooth: Tooth = { light: 0, rounding: 0 };
  const soft = Math.max(0.009, 0.6 * pixel);
  const seam = Math.max(TOOTH_SEAM, 0.5 * pixel);
  const narrow = 0.85 * (1 - smoothstep(0.06, 0.14, opening));
  /** Behind lips that hardly part, the light on shaded teeth comes from lips and tongue and is as red as these. */
  const mixTeeth = (out: Float32Array, shade: number, share: number): void => {
    if (share <= 0) return;
    const red = narrow * smoothstep(0.95, 0.45, shade);
    out[0] = blend(out[0] as number, black + (teeth[0] - black) * shade, share);
    out[1] = blend(out[1] as number, blend(teeth[1], flesh[1], red), share);
    out[2] = blend(out[2] as number, blend(teeth[2], flesh[2], red), share);
  };
  return (px, py, out) => {
    toOwn(px, py, own);
    const x = own[0] as number;
    const y = own[1] as number;
    const across = Math.min(1, Math.abs(x - middle) / half);
    const above = top.at(x);
    const below = bottom.at(x);
    const gap = Math.max(1e-3, below - above);
    const fromTop = y - above;
    const fromBottom = below - y;
    out[0] = cavity[0];
    out[1] = cavity[1];
    out[2] = cavity[2];
    // The tongue lies behind the lower teeth; its back is dark.
    if (wet > 0) {
      const tongue = wet * smoothstep(0.55, 0.15, fromBottom / gap) * (1 - smoothstep(0.55, 0.95, across));
      mix(out, flesh, 0.62 * tongue);
    }
    if (lowerShown > 0.004) {
      toothAt(x - middle, LOWER_GAPS, 0.006, seam, tooth);
      const lowEdge = lowerShown - 0.02 * across * across - tooth.rounding;
      const shown = smoothstep(-soft, soft, lowEdge - fromBottom) * (1 - smoothstep(0.5, 0.85, across));
      mixTeeth(out, 0.62 * lit * tooth.light * (1 - 0.4 * across), shown);
    }
    toothAt(x - middle, UPPER_GAPS, 0.012, seam, tooth);
    const hang = edge - 0.055 * across * across - tooth.rounding - y;
    const shown = ajar * smoothstep(-soft, soft, hang) * (1 - smoothstep(0.72, 1, across));
    const shade = lit * (0.74 + 0.26 * smoothstep(0, 0.04, fromTop)) * (1 - 0.5 * across ** 2.2);
    mixTeeth(out, shade * tooth.light, shown);
    // Lips are thick: their inner edge shows as a shaded rim of their own colour.
    const rim = 1 - smoothstep(0, Math.min(0.022, Math.max(0.3 * gap, pixel)), Math.min(fromTop, fromBottom));
    mix(out, rimFlesh, 0.7 * rim);
  };
}

const blend = (under: number, over: number, share: number): number => under + (over - under) * share;

function mix(out: Float32Array, colour: Yuv, share: number): void {
  if (share <= 0) return;
  for (let k = 0; k < 3; k++) out[k] = blend(out[k] as number, colour[k] as number, share);
}

/** Light and rounding of a row of teeth at a place. */
interface Tooth {
  light: number;
  rounding: number;
}

/** @param from distance from the middle of the row; @param seam visible width of the seam between two teeth */
function toothAt(from: number, gaps: readonly number[], round: number, seam: number, out: Tooth): void {
  const far = Math.abs(from);
  let k = 0;
  while (k + 2 < gaps.length && far > (gaps[k + 1] as number)) k++;
  const a = gaps[k] as number;
  const b = gaps[k + 1] as number;
  const t = Math.min(1, Math.max(0, (far - a) / (b - a)));
  const edge = Math.min(t, 1 - t) * (b - a);
  out.light = 1 - 0.16 * (TOOTH_SEAM / seam) * Math.exp(-((edge / seam) ** 2));
  out.rounding = round * (2 * t - 1) ** 4;
}

/** The edge of a lip towards the opening, as a height at each place between the corners. */
class Edge {
  readonly left: number;
  readonly right: number;
  readonly middle: number;
  readonly #x = new Float32Array(11);
  readonly #y = new Float32Array(11);

  constructor(rings: Float32Array, which: 'upper' | 'lower') {
    const inner = (RING_COUNT - 1) * RING_SIZE;
    for (let k = 0; k <= 10; k++) {
      const i = (inner + lipRows(k)[which]) * 2;
      this.#x[k] = rings[i] as number;
      this.#y[k] = rings[i + 1] as number;
    }
    this.left = this.#x[0] as number;
    this.right = this.#x[10] as number;
    this.middle = this.#y[5] as number;
  }

  at(x: number): number {
    if (x <= this.left) return this.#y[0] as number;
    if (x >= this.right) return this.#y[10] as number;
    let k = 0;
    while (k < 9 && x > (this.#x[k + 1] as number)) k++;
    const a = this.#x[k] as number;
    const b = this.#x[k + 1] as number;
    const t = Math.min(1, Math.max(0, (x - a) / Math.max(1e-6, b - a)));
    return (this.#y[k] as number) + ((this.#y[k + 1] as number) - (this.#y[k] as number)) * t;
  }
}
