import type { Picture } from '@semblance/engine-api/picture';
import { type InferenceSession, Tensor } from 'onnxruntime-node';
import { BODY_POINTS, type BodyPoint, type Person, type SquareRegion } from './person.ts';
import { aroundPerson } from './person-detector.ts';
import { cropRgb, type Point, squareCrop, toPicture } from './picture.ts';

const SIZE = 256;
/** Most rows and columns of picture pixels that are averaged for a crop pixel; more cost time and change nothing. */
const MAX_TAPS = 3;
const HEAT_SIZE = 64;
/** Points of the network: those of the body, two that place the next crop, and four unused ones. */
const ALL_POINTS = 39;
const VALUES = 5;
/** Half the side of the heat map window around a point. */
const HEAT_REACH = 3;
const MIN_HEAT = 0.5;

/** Fits body points and mask to a person in a square of a picture. */
export class PersonFitter {
  readonly #session: InferenceSession;

  /** @param session one of the two landmark networks */
  constructor(session: InferenceSession) {
    this.#session = session;
  }

  async fit(picture: Picture, region: SquareRegion): Promise<Person> {
    const crop = squareCrop(region, region.size, region.angle, SIZE);
    const { data } = cropRgb(picture, crop, SIZE, SIZE, MAX_TAPS);
    for (let i = 0; i < data.length; i++) data[i] = (data[i] as number) / 255;
    const outputs = await this.#session.run({
      [this.#session.inputNames[0] ?? '']: new Tensor('float32', data, [1, SIZE, SIZE, 3]),
    });
    const values = outputs.points?.data as Float32Array;
    const heat = outputs.heat?.data as Float32Array;
    const points = Array.from({ length: BODY_POINTS + 2 }, (_, i): BodyPoint => {
      const at = i * VALUES;
      const { x, y } = refine({ x: values[at] as number, y: values[at + 1] as number }, heat, i);
      return {
        ...toPicture(crop, x, y),
        z: (values[at + 2] as number) * crop.scale,
        visibility: sigmoid(values[at + 3] as number),
        presence: sigmoid(values[at + 4] as number),
      };
    });
    return {
      score: outputs.score?.data[0] as number,
      points: points.slice(0, BODY_POINTS),
      mask: {
        data: coverage(outputs.mask?.data as Float32Array),
        side: SIZE,
        region,
      },
      next: aroundPerson(points[BODY_POINTS] as Point, points[BODY_POINTS + 1] as Point),
    };
  }
}

/**
 * Moves a point to the centroid of its heat map window, when the map is confident: the map is the finer of the
 * network's two answers.
 * @param point in pixels of the crop
 * @param heat logits, {@link HEAT_SIZE}² × {@link ALL_POINTS}
 */
export function refine(point: Point, heat: Float32Array, index: number): Point {
  const cell = SIZE / HEAT_SIZE;
  const column = Math.trunc(point.x / cell);
  const row = Math.trunc(point.y / cell);
  if (column < 0 || row < 0 || column >= HEAT_SIZE || row >= HEAT_SIZE) return point;
  let sum = 0;
  let sumX = 0;
  let sumY = 0;
  let most = 0;
  for (let y = Math.max(0, row - HEAT_REACH); y <= Math.min(HEAT_SIZE - 1, row + HEAT_REACH); y++) {
    for (let x = Math.max(0, column - HEAT_REACH); x <= Math.min(HEAT_SIZE - 1, column + HEAT_REACH); x++) {
      const value = sigmoid(heat[(y * HEAT_SIZE + x) * ALL_POINTS + index] as number);
      sum += value;
      sumX += x * value;
      sumY += y * value;
      most = Math.max(most, value);
    }
  }
  return most < MIN_HEAT ? point : { x: (sumX / sum) * cell, y: (sumY / sum) * cell };
}

/** Converts the logits of a mask to 0–255. */
function coverage(logits: Float32Array): Uint8Array {
  const out = new Uint8Array(logits.length);
  for (let i = 0; i < out.length; i++) out[i] = 255 * sigmoid(logits[i] as number) + 0.5;
  return out;
}

function sigmoid(x: number): number {
  return 1 / (1 + Math.exp(-x));
}
