import { LIPS_INNER, LIPS_OUTER } from '@semblance/vision/face-regions';

/**
 * The 40 points that shape a mouth: {@link LIPS_OUTER}, then {@link LIPS_INNER}. Shapes and offsets are x and y in
 * turn, in the face's own frame.
 */
export const LIP_POINTS = [...LIPS_OUTER, ...LIPS_INNER] as const;
const OUTER = LIPS_OUTER.length;

/** Columns between the corners, from the person's right to the left. */
export const LIP_COLUMNS = 9;
/** Indices in {@link LIP_POINTS} of one column: outline and opening, of the upper and of the lower lip. */
export const lipColumn = (
  k: number,
): { upperOuter: number; upperInner: number; lowerInner: number; lowerOuter: number } => ({
  upperOuter: OUTER - 1 - k,
  upperInner: 2 * OUTER - 1 - k,
  lowerInner: OUTER + 1 + k,
  lowerOuter: 1 + k,
});
/** Indices of the corners in {@link LIP_POINTS}: outer right, outer left, inner right, inner left. */
export const LIP_CORNERS = [0, 10, OUTER, OUTER + 10] as const;

/** Rows of the lips between outline and opening, in the order of the columns, with their share of the way inwards. */
export const LIP_ROWS = [
  {
    upper: [184, 74, 73, 72, 11, 302, 303, 304, 408],
    lower: [77, 90, 180, 85, 16, 315, 404, 320, 307],
    share: 0.4,
  },
  {
    upper: [183, 42, 41, 38, 12, 268, 271, 272, 407],
    lower: [96, 89, 179, 86, 15, 316, 403, 319, 325],
    share: 0.8,
  },
] as const;

/** Returns the lips of a mesh in the face's own frame. */
export function lipsOf(own: Float32Array): Float32Array {
  const out = new Float32Array(LIP_POINTS.length * 2);
  LIP_POINTS.forEach((index, i) => {
    out[i * 2] = own[index * 3] as number;
    out[i * 2 + 1] = own[index * 3 + 1] as number;
  });
  return out;
}

/** Returns the openings of the columns. */
export function lipGaps(lips: Float32Array): Float32Array {
  return Float32Array.from({ length: LIP_COLUMNS }, (_, k) => {
    const { upperInner, lowerInner } = lipColumn(k);
    return (lips[lowerInner * 2 + 1] as number) - (lips[upperInner * 2 + 1] as number);
  });
}

/** Returns the opening of a mouth at its middle, the mean of three columns. */
export function middleGap(lips: Float32Array): number {
  const gaps = lipGaps(lips);
  return ((gaps[3] as number) + (gaps[4] as number) + (gaps[5] as number)) / 3;
}

export function mouthWidth(lips: Float32Array): number {
  const [right, left] = LIP_CORNERS;
  return (lips[left * 2] as number) - (lips[right * 2] as number);
}

/** Share of a change of the opening that the lower lip makes. */
const LOWER_SHARE = 0.8;

/**
 * Changes offsets so that the columns have the given openings.
 * @param rest the lips to which the offsets are added
 */
export function setGaps(rest: Float32Array, offsets: Float32Array, gaps: ArrayLike<number>): void {
  const add = (point: number, by: number): void => {
    offsets[point * 2 + 1] = (offsets[point * 2 + 1] as number) + by;
  };
  const y = (point: number): number => (rest[point * 2 + 1] as number) + (offsets[point * 2 + 1] as number);
  for (let k = 0; k < LIP_COLUMNS; k++) {
    const { upperOuter, upperInner, lowerInner, lowerOuter } = lipColumn(k);
    const lack = Math.max(0, gaps[k] as number) - (y(lowerInner) - y(upperInner));
    add(lowerInner, lack * LOWER_SHARE);
    add(lowerOuter, lack * LOWER_SHARE * 0.92);
    add(upperInner, lack * (LOWER_SHARE - 1));
    add(upperOuter, lack * (LOWER_SHARE - 1) * 0.8);
  }
}

/** A mouth in a few numbers; all zero is a relaxed, closed mouth. */
export interface MouthShape {
  /** Opening at the middle, in IOD. */
  readonly open: number;
  /** 0 at rest, 1 pulled wide as in "ee". */
  readonly spread: number;
  /** 0 at rest, 1 rounded as in "oo". */
  readonly round: number;
}

/** Returns the offsets that give a mouth at rest this shape. */
export function shapeLips(rest: Float32Array, shape: MouthShape): Float32Array {
  const offsets = new Float32Array(rest.length);
  const [right, left] = LIP_CORNERS;
  const middle = ((rest[right * 2] as number) + (rest[left * 2] as number)) / 2;
  const half = mouthWidth(rest) / 2;
  const widen = 0.16 * shape.spread - 0.34 * shape.round;
  for (let i = 0; i < LIP_POINTS.length; i++) {
    const x = (rest[i * 2] as number) - middle;
    offsets[i * 2] = x * widen;
    // Pulled corners rise a little. The lips of a rounded mouth come forward and look fuller.
    offsets[i * 2 + 1] = -0.03 * shape.spread * Math.abs(x / half) ** 2;
  }
  const gaps = Float32Array.from({ length: LIP_COLUMNS }, (_, k) => {
    const t = (k + 1) / (LIP_COLUMNS + 1);
    return shape.open * Math.sqrt(Math.max(0, 4 * t * (1 - t))) ** (1 - 0.4 * shape.round);
  });
  setGaps(rest, offsets, gaps);
  return offsets;
}
