import { smoothstep } from '@semblance/vision/plane/plane';
import { DrawnMouth, leastShown, mixed, type Place } from './drawn-mouth.ts';
import { roughness } from './grain.ts';
import { LipEdge } from './lip-edge.ts';
import type { MouthColours } from './mouth-colours.ts';
import type { Planes, Shader } from './openings.ts';
import { findInside, type OwnTeeth, type RestLips } from './own-teeth.ts';
import { sampleByte, sharpByte } from './raster.ts';

/** Largest factor by which the still's own teeth are stretched over a larger opening. */
const STRETCH = 1.25;
/** Share of a rise of the upper lip by which they go up with it; the rest stretches them. */
const RISE = 0.7;
/** Width of the shaded rim of the lips, in IOD and as a share of the opening, and its light against the lips'. */
const RIM = 0.022;
const RIM_OF_GAP = 0.3;
const RIM_LIGHT = 0.72;
/** How much lips that touch darken the teeth behind them. */
const SHUT = 0.5;
/** Distance beside the still's corners within which its inside fades, in IOD. */
const BESIDE = 0.02;
/** Height below the upper lip in which it shades the still's own teeth as the mouth opens, in IOD. */
const SHADOW = 0.06;

/** The visible content between the lips of one portrait. */
export class MouthInside {
  readonly #planes: Planes;
  readonly #rest: RestLips;
  readonly #teeth: OwnTeeth | undefined;
  readonly #toTexture: (x: number, y: number) => readonly [number, number];
  readonly #drawn: DrawnMouth;
  readonly #colours: MouthColours;
  /** Size of a pixel of the still in IOD: nothing finer is drawn. */
  readonly #pixel: number;

  /**
   * @param planes the still
   * @param lips the lips at rest, in the face's own frame
   * @param toTexture map from the plane of the mouth (the face's own frame) to the still
   */
  constructor(
    planes: Planes,
    lips: Float32Array,
    toTexture: (x: number, y: number) => readonly [number, number],
    colours: MouthColours,
  ) {
    this.#planes = planes;
    this.#colours = colours;
    this.#rest = { top: new LipEdge(lips, 'upper'), bottom: new LipEdge(lips, 'lower') };
    this.#toTexture = toTexture;
    const [ax, ay] = toTexture(0, 0);
    const [bx, by] = toTexture(1, 0);
    this.#pixel = 1 / Math.max(1, Math.hypot(bx - ax, by - ay));
    this.#drawn = new DrawnMouth(colours, this.#pixel);
    this.#teeth = findInside(planes, this.#rest, toTexture, colours);
  }

  /**
   * Returns the shader of a frame for the content between lips that are now at `lips`.
   * @param toOwn map from the frame to the plane of the mouth (the face's own frame)
   */
  shader(lips: Float32Array, toOwn: (x: number, y: number) => readonly [number, number]): Shader {
    const [top, bottom] = [new LipEdge(lips, 'upper'), new LipEdge(lips, 'lower')];
    const middle = (top.left + top.right) / 2;
    const half = Math.max(0.05, (top.right - top.left) / 2);
    const place: Place = { x: 0, across: 0, fromTop: 0, fromBottom: 0, gap: 0 };
    const content = this.#teeth
      ? this.#own(this.#teeth, top, bottom)
      : this.#opened(top, bottom.middle - top.middle);
    return (px, py, out) => {
      const [ox, oy] = toOwn(px, py);
      const [topY, bottomY] = [top.at(ox), bottom.at(ox)];
      place.x = ox - middle;
      place.across = Math.min(1, Math.abs(place.x) / half);
      place.gap = Math.max(1e-3, bottomY - topY);
      place.fromTop = oy - topY;
      place.fromBottom = bottomY - oy;
      this.#drawn.depths(out, place);
      this.#drawn.lowerTeeth(out, place);
      const drawn = content(out, ox, oy, place);
      // Lips are thick: their inner edges show as a shaded rim of their own colour where they have parted.
      const restGap = this.#rest.bottom.at(ox) - this.#rest.top.at(ox);
      const parted = smoothstep(0.02, 0.06, place.gap - restGap);
      const near = this.#teeth ? place.fromBottom : Math.min(place.fromBottom, place.fromTop);
      const rim = 1 - smoothstep(0, Math.min(RIM, Math.max(RIM_OF_GAP * place.gap, this.#pixel)), near);
      this.#mixRim(out, 0.7 * rim * parted);
      this.#addGrain(out, ox, oy, drawn);
    };
  }

  /** Returns what adds teeth to a mouth whose lips are closed in the still, and tells how much of it is drawn. */
  #opened(top: LipEdge, gap: number) {
    const { top: restTop, bottom: restBottom } = this.#rest;
    // Closed lips of the still hide the edges of the teeth at about its upper lip; open lips show where they are.
    const edge = top.middle + DrawnMouth.shown(restTop.middle + 0.06 - top.middle, gap);
    const width = Math.max(0.1, top.right - top.left);
    // Beside the corners of a wide open mouth a turned head would show cheeks.
    const closed = 1 - smoothstep(0.06, 0.16, gap - (restBottom.middle - restTop.middle));
    return (out: Float32Array, ox: number, oy: number, place: Place): number => {
      this.#drawn.upperTeeth(out, place, edge - oy);
      // When the mouth is almost closed, the still's own line between the lips shows, and goes along with the corners.
      const { gap: gapHere, fromTop } = place;
      const share = Math.min(1, Math.max(0, (ox - top.left) / width));
      const x = restTop.left + share * (restTop.right - restTop.left);
      const restGap = restBottom.at(x) - restTop.at(x);
      const line = closed * (1 - smoothstep(restGap + 0.004, restGap + 0.045, gapHere));
      const depth = Math.min(1, Math.max(0, fromTop / gapHere));
      if (line > 0) this.#mixStill(out, x, restTop.at(x) + depth * restGap, line);
      return 1 - line;
    };
  }

  /**
   * Returns what adds the still's own teeth, which stay with the upper jaw, and what it shows below them, which stays
   * with the lower lip. At rest both are the still.
   */
  #own(teeth: OwnTeeth, top: LipEdge, bottom: LipEdge) {
    const { top: restTop, bottom: restBottom } = this.#rest;
    const restGap = Math.max(1e-3, restBottom.middle - restTop.middle);
    const opened = bottom.middle - top.middle - restGap;
    // The lip uncovers a little more of the teeth as it goes down, and takes them along as it goes up.
    const stretch = Math.min(STRETCH, Math.max(1, (bottom.middle - restTop.middle) / restGap));
    const middle = (restTop.left + restTop.right) / 2;
    const strip = teeth.topAt(middle) - restTop.middle;
    const height = stretch * (teeth.bottomAt(middle) - teeth.topAt(middle));
    // Where the lip goes down over them in an open mouth, their edge still shows.
    const covered = Math.max(0, top.middle - restTop.middle);
    const least = Math.min(height, leastShown(bottom.middle - top.middle - strip));
    const rise = RISE * Math.max(0, restTop.middle - top.middle) - Math.max(0, covered + least - height);
    const closing = Math.min(1, Math.max(0, bottom.middle - top.middle) / restGap);
    const soft = this.#drawn.soft;
    // Between the points of the upper teeth the still shows what must not stay on the lower lip.
    const apart = smoothstep(0, 0.03, opened);
    const shaded = 0.3 * smoothstep(0, 0.15, opened);
    // Between lips that all but touch there is a dark line.
    const shut = SHUT * (1 - smoothstep(0, Math.min(0.045, 0.8 * restGap), bottom.middle - top.middle));
    return (out: Float32Array, ox: number, oy: number, { across, fromTop, fromBottom }: Place): number => {
      const [from, to] = [teeth.topAt(ox), teeth.bottomAt(ox)];
      // The mesh of the lip may run through the lip itself, whose edge moves with it.
      const lip = closing * (from - restTop.at(ox));
      const start = Math.min(oy - fromTop + lip, from - rise);
      const end = to - rise + (stretch - 1) * (to - from);
      // Beside the still's corners it shows cheeks.
      const beside = Math.max(restTop.left - ox, ox - restTop.right);
      const seen = 1 - smoothstep(0, BESIDE, beside);
      const upper = seen * (1 - smoothstep(end - soft, end + soft, oy));
      const lowY = restBottom.at(ox) - fromBottom;
      const lowest = to + (teeth.lowestAt(ox) - to) * apart;
      const low = smoothstep(lowest - soft, lowest + soft, lowY);
      const lower = Math.min(1 - upper, seen * low * (1 - apart * smoothstep(0.5, 0.85, across)));
      if (lower > 0) this.#mixStill(out, ox, lowY, lower / (1 - upper));
      if (upper > 0) {
        const within = Math.max(0, (oy - start) / Math.max(1e-3, end - start));
        const own = fromTop < lip ? restTop.at(ox) + fromTop : from + within * (to - from);
        this.#mixStill(out, ox, own, upper);
        const shadow = shaded * (1 - smoothstep(0, SHADOW, fromTop - lip));
        out[0] = 16 + ((out[0] as number) - 16) * (1 - upper * Math.max(shadow, shut));
      }
      return 1 - upper - lower;
    };
  }

  /** Mixes in the still's content at a place in the plane of the mouth. */
  #mixStill(out: Float32Array, ownX: number, ownY: number, share: number): void {
    const { y, u, v } = this.#planes;
    const [tx, ty] = this.#toTexture(ownX, ownY);
    out[0] = mixed(out[0] as number, sharpByte(y, tx, ty), share);
    out[1] = mixed(out[1] as number, sampleByte(u, tx / 2, ty / 2), share);
    out[2] = mixed(out[2] as number, sampleByte(v, tx / 2, ty / 2), share);
  }

  #mixRim(out: Float32Array, share: number): void {
    if (share <= 0) return;
    const { lips } = this.#colours;
    out[0] = mixed(out[0] as number, 16 + RIM_LIGHT * (lips[0] - 16), share);
    out[1] = mixed(out[1] as number, 128 + RIM_LIGHT * (lips[1] - 128), share);
    out[2] = mixed(out[2] as number, 128 + RIM_LIGHT * (lips[2] - 128), share);
  }

  /** Adds the still's grain to what is drawn; where little light falls, there is less of it. */
  #addGrain(out: Float32Array, ox: number, oy: number, drawn: number): void {
    const { grain, skin } = this.#colours;
    if (grain <= 0 || drawn <= 0) return;
    const noise = roughness(Math.round(ox / this.#pixel), Math.round(oy / this.#pixel));
    const light = Math.sqrt(Math.min(1, Math.max(0, (out[0] as number) - 16) / Math.max(1, skin[0] - 16)));
    out[0] = Math.max(16, (out[0] as number) + drawn * grain * light * noise);
  }
}
