import { POINTS } from '@semblance/vision/face-mesh';
import { LEFT_BROW, LIPS_OUTER, RIGHT_BROW } from '@semblance/vision/face-regions';
import { smoothstep } from '@semblance/vision/plane/plane';
import type { HeadShape } from './head-shape.ts';
import { LIP_POINTS, LIP_ROWS, lipColumn, lipGaps, lipsOf } from './lips.ts';

/** Difference of a face from the still. Lengths are in IOD, in the face's own frame. */
export interface Expression {
  /** Offsets of the {@link LIP_POINTS}, x and y in turn. */
  readonly lips?: Float32Array;
  /** Distance by which the chin goes down. */
  readonly jaw?: number;
  /** Openness of the person's right and left eye: 1 as in the still, 0 closed. */
  readonly eyes?: readonly [number, number];
  /** Rise of the brows: right inner and outer end, left inner and outer end. */
  readonly brows?: readonly [number, number, number, number];
}

/** Columns of points through an eye: lower and upper rim of the opening, two rows above it and one below. */
export type Lids = Readonly<Record<'lower' | 'upper' | 'fold' | 'above' | 'below', readonly number[]>>;
export const RIGHT_LIDS: Lids = {
  lower: [7, 163, 144, 145, 153, 154, 155],
  upper: [246, 161, 160, 159, 158, 157, 173],
  fold: [247, 30, 29, 27, 28, 56, 190],
  above: [113, 225, 224, 223, 222, 221, 189],
  below: [25, 110, 24, 23, 22, 26, 112],
};
export const LEFT_LIDS: Lids = {
  lower: [249, 390, 373, 374, 380, 381, 382],
  upper: [466, 388, 387, 386, 385, 384, 398],
  fold: [467, 260, 259, 257, 258, 286, 414],
  above: [342, 445, 444, 443, 442, 441, 413],
  below: [255, 339, 254, 253, 252, 256, 341],
};
/** Position where the lids meet, from the upper rim (0) to the lower one (1). */
const LIDS_MEET = 0.82;

/** The control points that one vertex follows: their indices in the list of controls, and their weights. */
interface Binding {
  readonly vertex: number;
  readonly controls: readonly number[];
  readonly weights: readonly number[];
}

/** Turns expressions into vertex offsets of one head; made once. */
export class ExpressionRig {
  /** The lips at rest. */
  readonly lips: Float32Array;
  /** Openings of the columns at rest. */
  readonly gaps: Float32Array;
  readonly #own: Float32Array;
  readonly #skin: readonly Binding[];
  readonly #brows: readonly Binding[];
  readonly #jaw: Float32Array;

  constructor(shape: HeadShape) {
    const { own } = shape;
    this.#own = own;
    this.lips = lipsOf(own);
    this.gaps = lipGaps(this.lips);
    const count = own.length / 3;
    const lipBand = new Set<number>([
      ...LIP_POINTS,
      ...LIP_ROWS.flatMap((row) => [...row.upper, ...row.lower]),
    ]);
    const free = Array.from({ length: count }, (_, v) => v).filter((v) => !lipBand.has(v));
    const mouthY = (yOf(own, 61) + yOf(own, 291)) / 2;
    this.#skin = bind(own, free, LIPS_OUTER, (v, distance) => {
      const up = yOf(own, v) < mouthY;
      // The nose stays; cheeks and chin move along.
      const reach = up ? 0.2 : 0.34;
      return Math.exp(-((distance / reach) ** 2));
    });
    this.#brows = bind(own, free, [...RIGHT_BROW, ...LEFT_BROW], (v, distance) => {
      if (RIMS.has(v)) return 0;
      // The lid hangs below the brow, so it stretches while the eye stays.
      const lid = FOLDS.has(v) ? 0.12 : ABOVE.has(v) ? 0.45 : 1;
      return lid * Math.exp(-((distance / 0.24) ** 2));
    });
    this.#jaw = new Float32Array(count);
    const chin = yOf(own, 152);
    for (let v = 0; v < count; v++) {
      const x = own[v * 3] as number;
      const y = yOf(own, v);
      const below = smoothstep(0, 0.7, (y - mouthY) / Math.max(0.3, chin - mouthY));
      const beside = 1 - smoothstep(0.45, 1.15, Math.abs(x));
      const beyond = v < POINTS ? 1 : 1 - smoothstep(0, 0.8, y - chin);
      this.#jaw[v] = below * beside * beyond;
    }
  }

  /** Adds the expression's offsets to `offsets` (x and y of each vertex). @returns how far the jaw went down */
  apply(expression: Expression, offsets: Float32Array): number {
    const { lips, eyes, brows } = expression;
    const jaw = expression.jaw ?? (lips ? this.#jawDrop(lips) : 0);
    if (lips) {
      LIP_POINTS.forEach((index, i) => {
        offsets[index * 2] = (offsets[index * 2] as number) + (lips[i * 2] as number);
        offsets[index * 2 + 1] = (offsets[index * 2 + 1] as number) + (lips[i * 2 + 1] as number);
      });
      for (const { upper, lower, share } of LIP_ROWS) {
        for (let k = 0; k < upper.length; k++) {
          const { upperOuter, upperInner, lowerInner, lowerOuter } = lipColumn(k);
          between(lips, upperOuter, upperInner, share, offsets, upper[k] as number);
          between(lips, lowerOuter, lowerInner, share, offsets, lower[k] as number);
        }
      }
      follow(this.#skin, lips, offsets, jaw === 0 ? undefined : this.#jaw, jaw);
    } else if (jaw !== 0) {
      for (let v = 0; v < this.#jaw.length; v++) {
        offsets[v * 2 + 1] = (offsets[v * 2 + 1] as number) + jaw * (this.#jaw[v] as number);
      }
    }
    if (brows) follow(this.#brows, this.#browOffsets(brows), offsets);
    if (eyes) {
      this.#lids(RIGHT_LIDS, eyes[0], offsets);
      this.#lids(LEFT_LIDS, eyes[1], offsets);
    }
    return jaw;
  }

  /** Returns the drop of the jaw for these lips: it follows the middle of the lower lip, but not completely. */
  #jawDrop(lips: Float32Array): number {
    let lower = 0;
    for (const k of [3, 4, 5]) lower += (lips[lipColumn(k).lowerInner * 2 + 1] as number) / 3;
    return 0.75 * lower;
  }

  #browOffsets(brows: readonly [number, number, number, number]): Float32Array {
    const [rightInner, rightOuter, leftInner, leftOuter] = brows;
    const all = [...RIGHT_BROW, ...LEFT_BROW];
    const out = new Float32Array(all.length * 2);
    all.forEach((index, i) => {
      const right = i < RIGHT_BROW.length;
      const t = smoothstep(0.15, 0.85, Math.abs(this.#own[index * 3] as number));
      const [inner, outer] = right ? [rightInner, rightOuter] : [leftInner, leftOuter];
      out[i * 2 + 1] = -(inner + (outer - inner) * t);
    });
    return out;
  }

  #lids(lids: Lids, open: number, offsets: Float32Array): void {
    const closed = 1 - open;
    for (let k = 0; k < lids.upper.length; k++) {
      const u = lids.upper[k] as number;
      const l = lids.lower[k] as number;
      const x = ((this.#own[l * 3] as number) - (this.#own[u * 3] as number)) * closed;
      const y = (yOf(this.#own, l) - yOf(this.#own, u)) * closed;
      const move = (v: number, by: number): void => {
        offsets[v * 2] = (offsets[v * 2] as number) + x * by;
        offsets[v * 2 + 1] = (offsets[v * 2 + 1] as number) + y * by;
      };
      move(u, LIDS_MEET);
      move(lids.fold[k] as number, LIDS_MEET * 0.62);
      move(lids.above[k] as number, LIDS_MEET * 0.12);
      move(l, LIDS_MEET - 1);
      move(lids.below[k] as number, (LIDS_MEET - 1) * 0.5);
    }
  }
}

const RIMS = new Set(
  [RIGHT_LIDS, LEFT_LIDS].flatMap((lids) => [...lids.lower, ...lids.upper, ...lids.below]),
);
const FOLDS = new Set([...RIGHT_LIDS.fold, ...LEFT_LIDS.fold, 130, 359, 243, 463]);
const ABOVE = new Set([...RIGHT_LIDS.above, ...LEFT_LIDS.above, 226, 446, 244, 464]);
const NEAREST = 4;

function yOf(own: Float32Array, v: number): number {
  return own[v * 3 + 1] as number;
}

function bind(
  own: Float32Array,
  vertices: readonly number[],
  controls: readonly number[],
  strength: (vertex: number, distance: number) => number,
): Binding[] {
  const out: Binding[] = [];
  for (const vertex of vertices) {
    const near = controls
      .map((control, place) => ({
        place,
        distance: Math.hypot(
          (own[control * 3] as number) - (own[vertex * 3] as number),
          yOf(own, control) - yOf(own, vertex),
        ),
      }))
      .sort((a, b) => a.distance - b.distance)
      .slice(0, NEAREST);
    const nearest = near[0]?.distance ?? Infinity;
    const all = strength(vertex, nearest);
    if (all < 0.01) continue;
    const weights = near.map(
      ({ distance }) => Math.exp(-(((distance - nearest) / 0.12) ** 2)) / (0.02 + distance),
    );
    const sum = weights.reduce((total, weight) => total + weight, 0);
    out.push({
      vertex,
      controls: near.map(({ place }) => place),
      weights: weights.map((weight) => (all * weight) / sum),
    });
  }
  return out;
}

/** Moves vertices with their controls; the rest of a vertex's weight follows the jaw. */
function follow(
  bindings: readonly Binding[],
  controls: Float32Array,
  offsets: Float32Array,
  jawWeights?: Float32Array,
  jaw = 0,
): void {
  const share = jawWeights ? new Float32Array(jawWeights.length) : undefined;
  for (const { vertex, controls: places, weights } of bindings) {
    let x = 0;
    let y = 0;
    let all = 0;
    for (let k = 0; k < places.length; k++) {
      const weight = weights[k] as number;
      x += weight * (controls[(places[k] as number) * 2] as number);
      y += weight * (controls[(places[k] as number) * 2 + 1] as number);
      all += weight;
    }
    offsets[vertex * 2] = (offsets[vertex * 2] as number) + x;
    offsets[vertex * 2 + 1] = (offsets[vertex * 2 + 1] as number) + y;
    if (share) share[vertex] = all;
  }
  if (!jawWeights || !share) return;
  const lips = LIP_BAND;
  for (let v = 0; v < jawWeights.length; v++) {
    if (lips.has(v)) continue;
    offsets[v * 2 + 1] =
      (offsets[v * 2 + 1] as number) + jaw * (jawWeights[v] as number) * (1 - (share[v] as number));
  }
}

const LIP_BAND = new Set<number>([...LIP_POINTS, ...LIP_ROWS.flatMap((row) => [...row.upper, ...row.lower])]);

function between(
  lips: Float32Array,
  outer: number,
  inner: number,
  share: number,
  offsets: Float32Array,
  vertex: number,
): void {
  for (const k of [0, 1]) {
    const a = lips[outer * 2 + k] as number;
    const b = lips[inner * 2 + k] as number;
    offsets[vertex * 2 + k] = (offsets[vertex * 2 + k] as number) + a + (b - a) * share;
  }
}
