import { type InferenceSession, Tensor } from 'onnxruntime-node';
import { type Detection, mergeOverlapping } from './face-detector.ts';
import type { SquareRegion } from './person.ts';
import { cropRgb, type Picture, type Point } from './picture.ts';

const SIZE = 224;
const MIN_SCORE = 0.5;
/** Cells of the detector's grids, and how many anchors each cell has. */
const LAYERS = [
  { stride: 8, perCell: 2 },
  { stride: 16, perCell: 2 },
  { stride: 32, perCell: 6 },
] as const;
const KEY_POINTS = 4;
const VALUES = 4 + 2 * KEY_POINTS;
/** The network's circle around a person leaves no room; the landmark network was trained with some. */
const MARGIN = 1.25;

/** The centres of the anchors in pixels of the network's input, in the order of its outputs. */
const ANCHORS: readonly Point[] = LAYERS.flatMap(({ stride, perCell }) => {
  const cells = SIZE / stride;
  return Array.from({ length: cells * cells * perCell }, (_, i) => {
    const cell = Math.floor(i / perCell);
    return { x: ((cell % cells) + 0.5) * stride, y: (Math.floor(cell / cells) + 0.5) * stride };
  });
});

/**
 * Finds people with BlazePose's detector (Bazarevsky et al. 2020, "BlazePose: On-device Real-time Body Pose Tracking"),
 * which looks for faces and says where the hips are and how far the body reaches from there.
 */
export class PersonDetector {
  readonly #session: InferenceSession;

  constructor(session: InferenceSession) {
    this.#session = session;
  }

  /** Squares around the people of a picture, the most prominent one first. */
  async detect(picture: Picture): Promise<SquareRegion[]> {
    const { input, left, top, zoom } = letterbox(picture);
    const outputs = await this.#session.run({
      [this.#session.inputNames[0] ?? '']: new Tensor('float32', input, [1, SIZE, SIZE, 3]),
    });
    const place = ({ x, y }: Point): Point => ({ x: (x - left) * zoom, y: (y - top) * zoom });
    const found = decodePeople(outputs.scores?.data as Float32Array, outputs.boxes?.data as Float32Array);
    return found
      .map(({ keyPoints: [hips, reach] }) => aroundPerson(place(hips as Point), place(reach as Point)))
      .sort((a, b) => prominence(picture, b) - prominence(picture, a));
  }
}

/** What the network saw, in pixels of its input: boxes of faces, of each four points, the first two as above. */
export function decodePeople(scores: Float32Array, boxes: Float32Array): Detection[] {
  const detections: Detection[] = [];
  ANCHORS.forEach((anchor, i) => {
    const score = 1 / (1 + Math.exp(-(scores[i] as number)));
    if (score < MIN_SCORE) return;
    const value = (k: number): number => boxes[i * VALUES + k] as number;
    const keyPoints = Array.from({ length: KEY_POINTS }, (_, k) => ({
      x: anchor.x + value(4 + 2 * k),
      y: anchor.y + value(5 + 2 * k),
    }));
    const [width, height] = [value(2), value(3)];
    const [x, y] = [anchor.x + value(0) - width / 2, anchor.y + value(1) - height / 2];
    detections.push({ score, x, y, width, height, keyPoints });
  });
  return mergeOverlapping(detections);
}

/** The square that shows a person whose hips lie at one point and whose body reaches as far as the other, which is above. */
export function aroundPerson(hips: Point, reach: Point): SquareRegion {
  const [dx, dy] = [reach.x - hips.x, reach.y - hips.y];
  return {
    x: hips.x,
    y: hips.y,
    size: 2 * Math.hypot(dx, dy) * MARGIN,
    angle: Math.atan2(dx, -dy),
  };
}

/** Larger people first, of equal ones the one nearer to the middle; what lies outside the picture does not count. */
function prominence(picture: Picture, region: SquareRegion): number {
  const half = region.size / 2;
  const inside = (centre: number, length: number): number =>
    Math.max(0, Math.min(length, centre + half) - Math.max(0, centre - half));
  const area = inside(region.x, picture.width) * inside(region.y, picture.height);
  const away = Math.hypot(region.x / picture.width - 0.5, region.y / picture.height - 0.5);
  return area * (1 - 0.6 * Math.min(1, away));
}

/** The whole picture in the middle of the network's square, black around it. */
function letterbox(picture: Picture): { input: Float32Array; left: number; top: number; zoom: number } {
  const zoom = Math.max(picture.width, picture.height) / SIZE;
  const width = Math.max(1, Math.round(picture.width / zoom));
  const height = Math.max(1, Math.round(picture.height / zoom));
  const { data } = cropRgb(picture, { scale: zoom, angle: 0, originX: 0, originY: 0 }, width, height);
  const [left, top] = [(SIZE - width) >> 1, (SIZE - height) >> 1];
  const input = new Float32Array(SIZE * SIZE * 3).fill(-1);
  for (let y = 0; y < height; y++) {
    const row = ((top + y) * SIZE + left) * 3;
    for (let i = 0; i < width * 3; i++) input[row + i] = (data[y * width * 3 + i] as number) / 127.5 - 1;
  }
  return { input, left, top, zoom };
}
