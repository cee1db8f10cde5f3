import { smoothstep } from '@semblance/vision/plane/plane';
import { roughness } from './grain.ts';
import { LIP_COLUMNS, LIP_CORNERS, lipColumn } from './lips.ts';
import type { Planes, Shader } from './openings.ts';
import { sampleByte } from './raster.ts';

/** Opening at rest, in IOD, from which the still's own teeth or mouth are visible. */
const SHOWS_INSIDE = 0.08;
/** Gaps between upper teeth from the middle outwards, in IOD (widths of 8.5, 6.5, 7.5, 7 and 7 mm at 63 mm). */
const UPPER_GAPS = [0, 0.132, 0.236, 0.352, 0.46, 0.57];
const LOWER_GAPS = [0, 0.084, 0.175, 0.28, 0.39, 0.5];
/** Largest visible height of the upper and lower teeth beyond the lips, in IOD (9 and 4 mm at 63 mm). */
const MAX_SHOWN = { upper: 0.14, lower: 0.032 };
/** Least visible height of the upper teeth in a wide open mouth (2.5 mm). */
const LEAST_SHOWN = 0.04;
/** Largest factor by which the still's own teeth are stretched over a larger opening. */
const STRETCH = 1.3;
/** Height over which they fade into the drawn mouth, in IOD, and how much it grows with the opening. */
const FADE = 0.03;
const FADE_OF_OPENING = 0.3;
/** Width of the shaded rim of the lips, in IOD and as a share of the opening. */
const RIM = 0.022;
const RIM_OF_GAP = 0.3;

type Yuv = readonly [number, number, number];

/** The visible content between the lips of one portrait. */
export class MouthInside {
  readonly #planes: Planes;
  readonly #restTop: LipEdge;
  readonly #restBottom: LipEdge;
  readonly #showsInside: boolean;
  readonly #toTexture: (x: number, y: number) => readonly [number, number];
  readonly #teeth: Yuv;
  readonly #cavity: Yuv;
  readonly #flesh: Yuv;
  readonly #rim: Yuv;
  /** Size of a pixel of the still in IOD: nothing finer is drawn. */
  readonly #pixel: number;
  readonly #grain: number;

  /**
   * @param planes the still
   * @param lips the lips at rest, in the face's own frame
   * @param toTexture map from the plane of the mouth (the face's own frame) to the still
   * @param colours of the cheeks, luma of the whites of the eyes, which are as light as teeth, and grain in levels
   */
  constructor(
    planes: Planes,
    lips: Float32Array,
    toTexture: (x: number, y: number) => readonly [number, number],
    { skin, whites, grain }: { readonly skin: Yuv; readonly whites: number; readonly grain: number },
  ) {
    this.#grain = grain;
    this.#planes = planes;
    this.#restTop = new LipEdge(lips, 'upper');
    this.#restBottom = new LipEdge(lips, 'lower');
    this.#showsInside = this.#restBottom.middle - this.#restTop.middle > SHOWS_INSIDE;
    this.#toTexture = toTexture;
    const [ax, ay] = toTexture(0, 0);
    const [bx, by] = toTexture(1, 0);
    this.#pixel = 1 / Math.max(1, Math.hypot(bx - ax, by - ay));
    const light = Math.max(12, skin[0] - 16);
    // Flesh is redder than skin. Its colour is that of the skin, so a grey photograph has a grey mouth.
    const tint = (blue: number, red: number): readonly [number, number] => [
      128 + blue * (skin[1] - 128),
      128 + red * (skin[2] - 128),
    ];
    this.#teeth = [Math.min(221, Math.max(16 + 1.05 * light, whites)), ...tint(0.45, 0.35)];
    this.#cavity = [16 + 0.1 * light, ...tint(0.35, 0.75)];
    this.#flesh = [16 + 0.5 * light, ...tint(0.6, 1.25)];
    this.#rim = [16 + 0.42 * light, ...tint(0.7, 1.25)];
  }

  /**
   * Returns the shader of a frame for the content between lips that are now at `lips`.
   * @param toOwn map from the frame to the plane of the mouth (the face's own frame)
   */
  shader(lips: Float32Array, toOwn: (x: number, y: number) => readonly [number, number]): Shader {
    const top = new LipEdge(lips, 'upper');
    const bottom = new LipEdge(lips, 'lower');
    const middle = (top.left + top.right) / 2;
    const half = Math.max(0.05, (top.right - top.left) / 2);
    // Closed lips of the still hide the edges of the teeth at about its upper lip; open lips show where they are.
    const upperEdge = this.#restTop.middle + 0.06;
    const soft = Math.max(0.009, 0.6 * this.#pixel);
    return (px, py, out) => {
      const [ox, oy] = toOwn(px, py);
      const across = Math.min(1, Math.abs(ox - middle) / half);
      const topY = top.at(ox);
      const bottomY = bottom.at(ox);
      const gap = Math.max(1e-3, bottomY - topY);
      const depth = (oy - topY) / gap;
      const opened = gap > SHOWS_INSIDE;
      // A slightly open mouth gets less light than a wide open one.
      const lit = 0.72 + 0.28 * smoothstep(0.02, 0.12, gap);
      const shade = lit * (0.7 + 0.3 * smoothstep(0, 0.05, oy - topY)) * (1 - 0.6 * across ** 2.3);
      const fromBottom = bottomY - oy;
      let drawn = 1;
      mixInto(out, this.#cavity, 1, true);
      // The tongue lies behind the lower teeth; its back is dark.
      const tongue =
        smoothstep(0.1, 0.22, gap) *
        smoothstep(0.66, 0.1, fromBottom / gap) *
        (1 - smoothstep(0.55, 0.95, across));
      mixInto(out, this.#flesh, 0.7 * tongue);
      const lowerShown = MAX_SHOWN.lower * smoothstep(0.2, 0.36, gap);
      if (lowerShown > 0.004) {
        const low = tooth(ox - middle, LOWER_GAPS, 0.006);
        const edge = lowerShown - 0.02 * across * across - low.rounding;
        const lowerTeeth = smoothstep(-soft, soft, edge - fromBottom) * (1 - smoothstep(0.5, 0.85, across));
        mixShaded(out, this.#teeth, 0.6 * lit * low.light * (1 - 0.4 * across), lowerTeeth);
      }
      if (this.#showsInside) {
        const restTop = this.#restTop.at(ox);
        const restGap = Math.max(1e-3, this.#restBottom.at(ox) - restTop);
        // The lip uncovers a little more of the teeth as it goes down; beyond that the mouth is drawn.
        const stretch = Math.min(STRETCH, Math.max(1, (bottomY - restTop) / restGap));
        const ownY = restTop + (oy - restTop) / stretch;
        const soft = FADE + FADE_OF_OPENING * Math.max(0, gap - restGap);
        const inside =
          smoothstep(-0.004, 0.012, oy - restTop) * smoothstep(-0.002, soft, restTop + restGap - ownY) +
          (oy <= restTop + 0.004 ? 1 : 0);
        if (inside > 0) {
          this.#mixStill(out, ox, Math.max(ownY, restTop + 0.012), Math.min(1, inside));
          drawn = 1 - Math.min(1, inside);
        }
      } else {
        const high = tooth(ox - middle, UPPER_GAPS, 0.016);
        const least = topY + LEAST_SHOWN * smoothstep(0.1, 0.25, gap);
        const edge = Math.min(Math.max(upperEdge, least), topY + MAX_SHOWN.upper);
        const upperTeeth =
          smoothstep(-soft, soft, edge - 0.05 * across * across - high.rounding - oy) *
          (1 - smoothstep(0.7, 1, across));
        mixShaded(out, this.#teeth, shade * high.light, upperTeeth);
        // When the mouth is almost closed, the still's own line between the lips shows.
        const restGap = this.#restBottom.at(ox) - this.#restTop.at(ox);
        const line = 1 - smoothstep(restGap + 0.004, restGap + 0.045, gap);
        if (line > 0) this.#mixStill(out, ox, this.#restTop.at(ox) + depth * restGap, line);
        drawn = 1 - line;
      }
      // Lips are thick: their inner edges show as a shaded rim of their own colour where they have parted.
      const parted = smoothstep(0.02, 0.06, gap - (this.#restBottom.at(ox) - this.#restTop.at(ox)));
      const near = this.#showsInside ? fromBottom : Math.min(fromBottom, oy - topY);
      const rim = 1 - smoothstep(0, Math.min(RIM, Math.max(RIM_OF_GAP * gap, this.#pixel)), near);
      mixInto(out, this.#rim, 0.7 * rim * parted);
      if (this.#grain > 0 && drawn > 0) {
        const noise = roughness(Math.round(ox / this.#pixel), Math.round(oy / this.#pixel));
        out[0] = Math.max(16, (out[0] as number) + drawn * this.#grain * noise);
      }
      if (!opened) return;
      // Shadow of the lips on the content behind them.
      const shadow = 1 - 0.35 * (1 - smoothstep(0, 0.25, depth)) * smoothstep(SHOWS_INSIDE, 0.12, gap);
      out[0] = 16 + ((out[0] as number) - 16) * shadow;
    };
  }

  /** Mixes in the still's content at a place in the plane of the mouth. */
  #mixStill(out: Float32Array, ownX: number, ownY: number, share: number): void {
    const { y, u, v } = this.#planes;
    const [tx, ty] = this.#toTexture(ownX, ownY);
    out[0] = mixed(out[0] as number, sampleByte(y, tx, ty), share);
    out[1] = mixed(out[1] as number, sampleByte(u, tx / 2, ty / 2), share);
    out[2] = mixed(out[2] as number, sampleByte(v, tx / 2, ty / 2), share);
  }
}

function mixInto(out: Float32Array, colour: Yuv, share: number, whole = false): void {
  for (let k = 0; k < 3; k++)
    out[k] = whole ? (colour[k] as number) : mixed(out[k] as number, colour[k] as number, share);
}

function mixShaded(out: Float32Array, colour: Yuv, light: number, share: number): void {
  out[0] = mixed(out[0] as number, 16 + (colour[0] - 16) * light, share);
  // Colour decreases with light: a dark tooth with the colour of a lit one would look olive.
  out[1] = mixed(out[1] as number, 128 + (colour[1] - 128) * light, share);
  out[2] = mixed(out[2] as number, 128 + (colour[2] - 128) * light, share);
}

function mixed(a: number, b: number, share: number): number {
  return a + (b - a) * share;
}

/** Returns light and rounding of a row of teeth at a distance from its middle. */
function tooth(x: number, gaps: readonly number[], round: number): { light: number; rounding: number } {
  const from = Math.abs(x);
  let k = 0;
  while (k + 2 < gaps.length && from > (gaps[k + 1] as number)) k++;
  const a = gaps[k] as number;
  const b = gaps[k + 1] as number;
  const t = Math.min(1, Math.max(0, (from - a) / (b - a)));
  const edge = Math.min(t, 1 - t) * (b - a);
  return { light: 1 - 0.22 * Math.exp(-((edge / 0.012) ** 2)), rounding: round * (2 * t - 1) ** 4 };
}

/** The edge of a lip towards the opening, as a height at each place between the corners. */
class LipEdge {
  readonly left: number;
  readonly right: number;
  readonly middle: number;
  readonly #x: Float32Array;
  readonly #y: Float32Array;

  constructor(lips: Float32Array, which: 'upper' | 'lower') {
    const places = [LIP_CORNERS[2] as number];
    for (let k = 0; k < LIP_COLUMNS; k++) {
      const column = lipColumn(k);
      places.push(which === 'upper' ? column.upperInner : column.lowerInner);
    }
    places.push(LIP_CORNERS[3]);
    this.#x = Float32Array.from(places, (place) => lips[place * 2] as number);
    this.#y = Float32Array.from(places, (place) => lips[place * 2 + 1] as number);
    this.left = this.#x[0] as number;
    this.right = this.#x[places.length - 1] as number;
    this.middle = this.#y[(places.length - 1) / 2] as number;
  }

  at(x: number): number {
    const last = this.#x.length - 1;
    if (x <= this.left) return this.#y[0] as number;
    if (x >= this.right) return this.#y[last] as number;
    let k = 0;
    while (k < last - 1 && x > (this.#x[k + 1] as number)) k++;
    const a = this.#x[k] as number;
    const b = this.#x[k + 1] as number;
    const t = Math.min(1, Math.max(0, (x - a) / Math.max(1e-6, b - a)));
    return (this.#y[k] as number) + ((this.#y[k + 1] as number) - (this.#y[k] as number)) * t;
  }
}
