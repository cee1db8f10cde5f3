import type { Shader } from '../animate/openings.ts';
import { smoothstep } from '../swap/plane.ts';
import { lipRows, RING_COUNT, RING_SIZE } from './lip-rings.ts';

type Yuv = readonly [number, number, number];

/** How far the upper teeth hang below where the lips meet, IOD (3 mm at 63 mm). */
const UPPER_SHOWN = 0.05;
/** Most that is seen of the lower teeth above the lower lip, IOD. */
const LOWER_SHOWN = 0.032;
/** Gaps between teeth from the middle outwards, IOD (8.5, 6.5, 7.5, 7 and 7 mm; below 5.5, 6, 7, 7 and 7 mm). */
const UPPER_GAPS = [0, 0.135, 0.238, 0.357, 0.468, 0.58];
const LOWER_GAPS = [0, 0.087, 0.182, 0.293, 0.404, 0.515];

export interface InsideOptions {
  /** Ring points now and at rest, in the face's own frame. */
  readonly lips: Float32Array;
  readonly rest: Float32Array;
  /** Colour of the cheeks, which says how much light there is and of what colour. */
  readonly skin: Yuv;
  /** Luma of this person's teeth where it has been seen. */
  readonly teethLuma: number | undefined;
  /** Luma of black. */
  readonly black: number;
}

/**
 * What is seen between lips: the dark of the mouth, the tongue, teeth. The upper teeth stay with the skull, lower ones
 * and the tongue go with the jaw.
 * @param toOwn the plane of the mouth (the face's own frame) for each place of the frame
 */
export function mouthInside(
  { lips, rest, skin, teethLuma, black }: InsideOptions,
  toOwn: (x: number, y: number, out: Float32Array) => void,
): Shader {
  const top = new Edge(lips, 'upper');
  const bottom = new Edge(lips, 'lower');
  const restTop = new Edge(rest, 'upper');
  const middle = (top.left + top.right) / 2;
  const half = Math.max(0.05, (top.right - top.left) / 2);
  const opening = bottom.middle - top.middle;
  const light = Math.max(12, skin[0] - black);
  // Flesh is redder than skin: less of the skin's blue difference, more of its red one.
  const tint = (blue: number, red: number): readonly [number, number] => [
    128 + blue * (skin[1] - 128),
    128 + red * (skin[2] - 128),
  ];
  const teeth: Yuv = [teethLuma ?? black + Math.min(196, 1.02 * light + 14), ...tint(0.45, 0.4)];
  const cavity: Yuv = [black + 0.1 * light, ...tint(0.35, 0.75)];
  const flesh: Yuv = [black + 0.5 * light, ...tint(0.6, 1.25)];
  const edge = restTop.middle + UPPER_SHOWN;
  // A mouth that opens a crack gets less light than a wide one.
  const lit = 0.72 + 0.28 * smoothstep(0.02, 0.12, opening);
  const ajar = smoothstep(0.008, 0.05, opening);
  const lowerShown = LOWER_SHOWN * smoothstep(0.07, 0.2, opening);
  const wet = smoothstep(0.1, 0.22, opening);
  const own = new Float32Array(2);
  return (px, py, out) => {
    toOwn(px, py, own);
    const x = own[0] as number;
    const y = own[1] as number;
    const across = Math.min(1, Math.abs(x - middle) / half);
    const [above, below] = [top.at(x), bottom.at(x)];
    const gap = Math.max(1e-3, below - above);
    const [fromTop, fromBottom] = [y - above, below - y];
    out.set(cavity);
    // The tongue lies behind the lower teeth; its back is in the dark.
    const tongue = wet * smoothstep(0.55, 0.15, fromBottom / gap) * (1 - smoothstep(0.55, 0.95, across));
    mix(out, flesh, 0.62 * tongue);
    const low = tooth(x - middle, LOWER_GAPS, 0.006);
    const lowEdge = lowerShown - 0.02 * across * across - low.rounding;
    const lowTeeth = smoothstep(-0.008, 0.008, lowEdge - fromBottom) * (1 - smoothstep(0.5, 0.85, across));
    if (lowerShown > 0.004) mixLit(out, teeth, black, 0.62 * lit * low.light * (1 - 0.4 * across), lowTeeth);
    const high = tooth(x - middle, UPPER_GAPS, 0.012);
    const hang = edge - 0.055 * across * across - high.rounding - y;
    const highTeeth = ajar * smoothstep(-0.009, 0.009, hang) * (1 - smoothstep(0.72, 1, across));
    const shade = lit * (0.74 + 0.26 * smoothstep(0, 0.04, fromTop)) * (1 - 0.5 * across ** 2.2) * high.light;
    mixLit(out, teeth, black, shade, highTeeth);
    // Lips are thick: their inner edge shows as a rim of their own colour, in shadow.
    const rim = 1 - smoothstep(0, Math.min(0.022, 0.3 * gap), Math.min(fromTop, fromBottom));
    mix(out, [black + 0.42 * light, ...tint(0.7, 1.25)], 0.7 * rim);
  };
}

function mix(out: Float32Array, colour: Yuv, share: number): void {
  for (let k = 0; k < 3; k++) {
    const under = out[k] as number;
    out[k] = under + ((colour[k] as number) - under) * share;
  }
}

function mixLit(out: Float32Array, colour: Yuv, black: number, light: number, share: number): void {
  mix(out, [black + (colour[0] - black) * light, colour[1], colour[2]], share);
}

/** Light and rounding of a row of teeth at a distance from its middle. */
function tooth(x: number, gaps: readonly number[], round: number): { light: number; rounding: number } {
  const from = Math.abs(x);
  let k = 0;
  while (k + 2 < gaps.length && from > (gaps[k + 1] as number)) k++;
  const a = gaps[k] as number;
  const b = gaps[k + 1] as number;
  const t = Math.min(1, Math.max(0, (from - a) / (b - a)));
  const edge = Math.min(t, 1 - t) * (b - a);
  return { light: 1 - 0.16 * Math.exp(-((edge / 0.011) ** 2)), rounding: round * (2 * t - 1) ** 4 };
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
