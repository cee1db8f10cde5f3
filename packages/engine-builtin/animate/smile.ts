import { LIP_COLUMNS, LIP_CORNERS, LIP_POINTS, lipColumn, mouthWidth } from './lips.ts';

/** A smile in two numbers, in IOD. */
interface Smile {
  readonly width: number;
  /** Height of the corners over the middle of the upper lip, which hardly moves when the mouth opens. */
  readonly lift: number;
}

/** Points of the upper lip between the corners. */
const UPPER = Array.from({ length: LIP_COLUMNS }, (_, k) => lipColumn(k)).flatMap(
  ({ upperOuter, upperInner }) => [upperOuter, upperInner],
);

/** Returns the smile of lips, in whatever opening. */
export function smileOf(lips: Float32Array): Smile {
  const [right, left] = LIP_CORNERS;
  const middle = UPPER.reduce((sum, point) => sum + (lips[point * 2 + 1] as number) / UPPER.length, 0);
  const corners = ((lips[right * 2 + 1] as number) + (lips[left * 2 + 1] as number)) / 2;
  return { width: mouthWidth(lips), lift: middle - corners };
}

/**
 * Adds to offsets what brings the smile of lips to the given one: their width about the middle, and the height of
 * the corners, which bends the lips.
 * @param rest the lips to which the offsets are added
 */
export function setSmile(rest: Float32Array, offsets: Float32Array, { width, lift }: Smile): void {
  const moved = rest.map((value, i) => value + (offsets[i] as number));
  const now = smileOf(moved);
  const [right, left] = LIP_CORNERS;
  const middle = ((moved[right * 2] as number) + (moved[left * 2] as number)) / 2;
  const half = Math.max(1e-3, now.width / 2);
  const widen = width / (2 * half) - 1;
  const along = Array.from(
    { length: LIP_POINTS.length },
    (_, i) => ((moved[i * 2] as number) - middle) / half,
  );
  // The bend is that of a parabola, whose mean over the upper lip stays where it is.
  const mean = UPPER.reduce((sum, point) => sum + (along[point] as number) ** 2, 0) / UPPER.length;
  const bend = (now.lift - lift) / Math.max(0.1, 1 - mean);
  for (const [i, t] of along.entries()) {
    offsets[i * 2] = (offsets[i * 2] as number) + t * half * widen;
    offsets[i * 2 + 1] = (offsets[i * 2 + 1] as number) + bend * (t * t - mean);
  }
}
