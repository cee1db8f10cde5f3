import type { Picture } from '@semblance/engine-api/picture';
import { type InferenceSession, Tensor } from 'onnxruntime-node';
import type { SquareRegion } from './person.ts';
import { cropRgb, type Point } from './picture.ts';

const SIZE = 224;
const MIN_SCORE = 0.5;
/** Stride of the detector's grids and number of anchors per cell. */
const LAYERS = [
  { stride: 8, perCell: 2 },
  { stride: 16, perCell: 2 },
  { stride: 32, perCell: 6 },
] as const;
/** Values per anchor: a box of four values, then four points, of which the first two (hips and reach) are used. */
const VALUES = 12;
const HIPS = 4;
const REACH = 6;
/** Two detections whose points differ by less than this share of the body's reach belong to one person. */
const AGREEMENT = 0.2;
/** Largest number of people that are examined. */
const MAX_PEOPLE = 4;
/** The network's circle around a person has no margin, but the landmark network was trained with one. */
const MARGIN = 1.25;

/** Centres of the anchors in pixels of the network's input, in the order of its outputs. */
const ANCHORS: readonly Point[] = LAYERS.flatMap(({ stride, perCell }) => {
  const cells = SIZE / stride;
  return Array.from({ length: cells * cells * perCell }, (_, i) => {
    const cell = Math.floor(i / perCell);
    return { x: ((cell % cells) + 0.5) * stride, y: (Math.floor(cell / cells) + 0.5) * stride };
  });
});

/**
 * Finds people with BlazePose's detector (Bazarevsky et al. 2020, "BlazePose: On-device Real-time Body Pose
 * Tracking"). The detector looks for faces and predicts the position of the hips and the reach of the body.
 */
export class PersonDetector {
  readonly #session: InferenceSession;

  constructor(session: InferenceSession) {
    this.#session = session;
  }

  /** Returns squares around the people of a picture, most confident first. */
  async detect(picture: Picture): Promise<SquareRegion[]> {
    const { input, left, top, zoom } = letterbox(picture);
    const outputs = await this.#session.run({
      [this.#session.inputNames[0] ?? '']: new Tensor('float32', input, [1, SIZE, SIZE, 3]),
    });
    const place = ({ x, y }: Point): Point => ({ x: (x - left) * zoom, y: (y - top) * zoom });
    return decodePeople(outputs.scores?.data as Float32Array, outputs.boxes?.data as Float32Array).map(
      ({ hips, reach }) => aroundPerson(place(hips), place(reach)),
    );
  }
}

/** Detection of a person: the middle of the hips, and a point above it at the distance of the body's reach. */
export interface Sight {
  readonly score: number;
  readonly hips: Point;
  readonly reach: Point;
}

/**
 * Decodes the network's outputs into people, most confident first, in pixels of its input. Detections of one person
 * are averaged.
 */
export function decodePeople(scores: Float32Array, boxes: Float32Array): Sight[] {
  const sights: Sight[] = [];
  ANCHORS.forEach((anchor, i) => {
    const score = 1 / (1 + Math.exp(-(scores[i] as number)));
    if (score < MIN_SCORE) return;
    const point = (k: number): Point => ({
      x: anchor.x + (boxes[i * VALUES + k] as number),
      y: anchor.y + (boxes[i * VALUES + k + 1] as number),
    });
    sights.push({ score, hips: point(HIPS), reach: point(REACH) });
  });
  let rest = sights.sort((a, b) => b.score - a.score);
  const people: Sight[] = [];
  while (rest.length > 0 && people.length < MAX_PEOPLE) {
    const best = rest[0] as Sight;
    people.push(average(rest.filter((other) => agree(best, other))));
    rest = rest.filter((other) => !agree(best, other));
  }
  return people;
}

function agree(a: Sight, b: Sight): boolean {
  const apart = (p: Point, q: Point): number => Math.hypot(p.x - q.x, p.y - q.y);
  const allowed = AGREEMENT * apart(a.hips, a.reach);
  return apart(a.hips, b.hips) < allowed && apart(a.reach, b.reach) < allowed;
}

function average(group: readonly Sight[]): Sight {
  const total = group.reduce((sum, { score }) => sum + score, 0);
  const mean = (pick: (sight: Sight) => Point): Point => ({
    x: group.reduce((sum, sight) => sum + pick(sight).x * sight.score, 0) / total,
    y: group.reduce((sum, sight) => sum + pick(sight).y * sight.score, 0) / total,
  });
  return {
    score: (group[0] as Sight).score,
    hips: mean((sight) => sight.hips),
    reach: mean((sight) => sight.reach),
  };
}

/**
 * Returns the square that shows a person with these hips and with the body reaching as far as the other point,
 * which is above.
 */
export function aroundPerson(hips: Point, reach: Point): SquareRegion {
  const [dx, dy] = [reach.x - hips.x, reach.y - hips.y];
  return {
    x: hips.x,
    y: hips.y,
    size: 2 * Math.hypot(dx, dy) * MARGIN,
    angle: Math.atan2(dx, -dy),
  };
}

/** Scales the whole picture into the middle of the network's square, on black. */
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
