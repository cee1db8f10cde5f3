import { type InferenceSession, Tensor } from 'onnxruntime-node';
import { withoutBareSkin } from './bare-skin.ts';
import { type CropSource, type Face, POINTS } from './face-mesh.ts';
import { LEFT_EYE, LEFT_LENS, NOSE_BRIDGE, RIGHT_EYE, RIGHT_LENS } from './face-regions.ts';
import { type CropTransform, squareCrop, toCrop } from './picture.ts';
import { fillPolygon, type Plane, plane, sample, smoothstep } from './plane/plane.ts';
import { thinFrame } from './thin-frame.ts';

/** Side of the network's input and output in pixels, and of their crop in face widths. */
const SIZE = 96;
export const CROP = 1.6;
/** Mesh point at the tip of the nose. */
const TIP = 4;

/** Shares of the bridge of the nose, of the area of each lens (least and most) and of each eye by which a frame is told. */
const BRIDGE = 0.05;
const LENS = [0.06, 0.52] as const;
/** Greatest share of a lens where the other has at least so much of it: a thick frame covers both alike. */
const THICK = 0.62;
const BOTH = 0.65;
const EYE = 0.75;

/** Probabilities below which nothing covers a pixel, and from which something covers all of it. */
export const COVERED = [0.25, 0.6] as const;

/** Returns the share of a pixel that is covered. @param surely as of {@link FaceCover.of} */
export function shareCovered(surely: number): number {
  return smoothstep(COVERED[0], COVERED[1], surely);
}

/** The same where the frame of glasses is known to be: a thin or pale part of it is found less surely. */
const FRAMED = [0.06, 0.2] as const;

/** Returns the share of a pixel beside the eyes that glasses cover, when a face wears them. */
export function shareFramed(surely: number): number {
  return smoothstep(FRAMED[0], FRAMED[1], surely);
}

/** Returns the upright crop around the middle of a face's mesh. */
export function coverCrop({ points, width, roll }: Face, side = CROP, size = SIZE): CropTransform {
  let [x, y] = [0, 0];
  for (let i = 0; i < POINTS; i++) {
    x += (points[i * 3] as number) / POINTS;
    y += (points[i * 3 + 1] as number) / POINTS;
  }
  return squareCrop({ x, y }, side * width, roll, size);
}

/**
 * Finds what stands in front of a face: a hand, a mask, a cup, a microphone. The network saw faces with drawn
 * objects, with parts of other pictures, and bare ones (tools/train-face-cover). A second one beside it finds the
 * frames of glasses.
 */
export class FaceCover {
  readonly #session: InferenceSession;

  constructor(session: InferenceSession) {
    this.#session = session;
  }

  /**
   * Returns how surely each pixel of {@link coverCrop} is covered, 0–1. The pixels of `source` are read before it
   * returns a promise, but not those that `thin` needs.
   * @param thin whether to look for glasses without rims too, which takes longer
   */
  async of(source: CropSource, face: Face, thin = false): Promise<Plane> {
    const crop = coverCrop(face);
    const pixels = source(crop, SIZE);
    const planes = new Float32Array(3 * SIZE * SIZE);
    for (let i = 0; i < SIZE * SIZE; i++)
      for (let c = 0; c < 3; c++) planes[c * SIZE * SIZE + i] = (pixels[i * 3 + c] as number) / 255;
    const outputs = await this.#session.run({ crop: new Tensor('float32', planes, [1, 3, SIZE, SIZE]) });
    const found = { width: SIZE, height: SIZE, data: outputs.covered?.data as Float32Array };
    const covered = withoutBareSkin(found, { crop, pixels, from: COVERED[0] }, face);
    const frame = { width: SIZE, height: SIZE, data: outputs.framed?.data as Float32Array };
    if (showsFrame(frame, face) || showsHalfFrame(frame, covered, face))
      return withFrame(covered, frame, face);
    if (!thin) return covered;
    const suspected = [NOSE_BRIDGE, RIGHT_LENS, LEFT_LENS].map((area) => coveredShare(frame, face, area));
    const lines = thinFrame(source, face, { suspected, crop, size: SIZE });
    return lines ? withFrame(covered, lines, face) : covered;
  }
}

/**
 * Returns whether what covers a face is the frame of glasses through which its eyes are seen: it crosses the nose and
 * surrounds both eyes, but hides none.
 * @param cover a plane of {@link FaceCover} for this face
 */
export function showsFrame(cover: Plane, face: Face): boolean {
  const share = (outline: readonly number[]): number => coveredShare(cover, face, outline);
  if (Math.max(share(RIGHT_EYE), share(LEFT_EYE)) > EYE) return false;
  const lenses = [share(RIGHT_LENS), share(LEFT_LENS)] as const;
  const [least, greatest] = [Math.min(...lenses), Math.max(...lenses)];
  const most = least > BOTH * greatest ? THICK : LENS[1];
  return share(NOSE_BRIDGE) > BRIDGE && least > LENS[0] && greatest < most;
}

/**
 * Returns whether a frame is seen around one lens and at the nose, where something hides the other, such as hair.
 * @param frame what may be a frame; `covered` is what else covers the face
 */
function showsHalfFrame(frame: Plane, covered: Plane, face: Face): boolean {
  const lenses = [RIGHT_LENS, LEFT_LENS].map((outline) => ({
    framed: coveredShare(frame, face, outline),
    hidden: coveredShare(covered, face, outline),
  }));
  const [seen, other] = lenses.toSorted((a, b) => a.hidden - b.hidden) as [
    (typeof lenses)[0],
    (typeof lenses)[0],
  ];
  const surrounds = seen.framed > LENS[0] && seen.framed < LENS[1];
  return surrounds && other.hidden > LENS[1] && coveredShare(frame, face, NOSE_BRIDGE) > BRIDGE;
}

/** Returns what covers a face together with a frame, which reaches down to the tip of the nose at most. */
function withFrame(covered: Plane, frame: Plane, { points, ...face }: Face): Plane {
  const tip = toCrop(
    coverCrop({ points, ...face }),
    points[TIP * 3] as number,
    points[TIP * 3 + 1] as number,
  );
  const end = SIZE * Math.min(SIZE, Math.max(0, Math.round(tip.y)));
  const data = covered.data.map((share, i) => (i < end ? Math.max(share, frame.data[i] as number) : share));
  return { ...covered, data };
}

/**
 * Returns the share of an area of a face that is covered.
 * @param cover a plane of {@link FaceCover} for this face
 * @param outline mesh points around the area
 */
export function coveredShare(cover: Plane, face: Face, outline: readonly number[]): number {
  const crop = coverCrop(face);
  const area = plane(cover.width, cover.height);
  fillPolygon(
    area,
    outline.flatMap((i) => {
      const { x, y } = toCrop(crop, face.points[i * 3] as number, face.points[i * 3 + 1] as number);
      return [x, y];
    }),
  );
  let [all, covered] = [0, 0];
  for (let i = 0; i < area.data.length; i++) {
    all += area.data[i] as number;
    covered += (area.data[i] as number) * (cover.data[i] as number);
  }
  return covered / Math.max(1, all);
}

/** Returns the value of a plane of {@link FaceCover} at a place of the picture that shows the face; 0 outside. */
export function coverAt(cover: Plane, crop: CropTransform, x: number, y: number): number {
  const at = toCrop(crop, x, y);
  const within = at.x >= 0 && at.y >= 0 && at.x < cover.width && at.y < cover.height;
  return within ? sample(cover, at.x, at.y) : 0;
}
