import type { Picture } from '@semblance/engine-api/picture';
import { cropRgb, type Point, type RgbImage } from '@semblance/vision/picture';
import { detectorSize, STRIDES } from '../contracts/catalog.ts';
import type { FloatTensor, FloatTensors } from '../sessions/protocol.ts';
import { toPlanes } from '../vision/tensors.ts';
import { noNumbers, type OpenModel } from './models.ts';

/** A face as a detector returns it, in pixels of the picture. */
export interface FoundFace {
  readonly score: number;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  /**
   * The eye on the left of an upright face, the other eye, the tip of the nose, the corners of the mouth in the
   * same order.
   */
  readonly five: readonly Point[];
}

const MAX_OVERLAP = 0.4;
/**
 * Smallest width, in pixels of the network's input, at which a face is still found; a finer picture would not help.
 */
const SMALLEST_IN_INPUT = 24;
const SMALLEST_FACE = 56;
const TILE_OVERLAP = 0.25;

/**
 * Finds faces with a common detector, first in the whole picture. If there are none, it searches overlapping parts,
 * finer and finer, until it would have found faces of 56 pixels.
 */
export async function detectFaces(
  detector: OpenModel,
  picture: Picture,
  signal: AbortSignal,
): Promise<FoundFace[]> {
  const size = detectorSize(detector.options, detector.model.summary);
  let reduction = Math.max(picture.width, picture.height) / size;
  const finest = Math.max(1, SMALLEST_FACE / SMALLEST_IN_INPUT);
  for (;;) {
    const found: FoundFace[] = [];
    const zoom = Math.max(1, reduction);
    for (const [left, top] of tiles(picture, size * zoom)) {
      found.push(...(await detectIn(detector, picture, { left, top, zoom, size }, signal)));
    }
    if (found.length > 0 || reduction <= finest) return suppress(found);
    reduction = Math.max(reduction / 2, finest);
  }
}

interface Tile {
  readonly left: number;
  readonly top: number;
  /** Picture pixels per pixel of the network's input. */
  readonly zoom: number;
  readonly size: number;
}

async function detectIn(
  detector: OpenModel,
  picture: Picture,
  tile: Tile,
  signal: AbortSignal,
): Promise<FoundFace[]> {
  const { left, top, zoom, size } = tile;
  const width = Math.min(size, Math.ceil((picture.width - left) / zoom));
  const height = Math.min(size, Math.ceil((picture.height - top) / zoom));
  const part = cropRgb(picture, { scale: zoom, angle: 0, originX: left, originY: top }, width, height);
  const { model, traits } = detector;
  const input = toPlanes(onBlack(part, size), traits);
  const outputs = await detector.runAll({ [model.inputs[0]?.role ?? '']: input }, signal);
  const decode = DECODERS[model.contract.name];
  if (!decode) throw new Error(`no decoder for ${model.contract.name}`);
  const faces = decode(outputs, size, detector.options.score ?? 0.5);
  if (!faces.every(hasPlace)) throw noNumbers(model);
  return faces.map((face) => ({
    score: face.score,
    x: left + face.x * zoom,
    y: top + face.y * zoom,
    width: face.width * zoom,
    height: face.height * zoom,
    five: face.five.map(({ x, y }) => ({ x: left + x * zoom, y: top + y * zoom })),
  }));
}

function hasPlace({ score, x, y, width, height, five }: FoundFace): boolean {
  return [score, x, y, width, height, ...five.flatMap((point) => [point.x, point.y])].every(Number.isFinite);
}

/** Returns the candidates with a score of at least `least`, and those whose score is not a number. */
type Decoder = (outputs: FloatTensors, size: number, least: number) => FoundFace[];

/** Decodes distances from anchor points to the sides of the box and to the five points, in strides. */
const anchored: Decoder = (outputs, size, least) => {
  const faces: FoundFace[] = [];
  for (const stride of STRIDES) {
    const scores = values(outputs, `score_${stride}`);
    const boxes = values(outputs, `box_${stride}`);
    const points = values(outputs, `points_${stride}`);
    const columns = size / stride;
    for (let i = 0; i < scores.length; i++) {
      const score = scores[i] as number;
      if (score < least) continue;
      const cell = i >> 1;
      const ax = (cell % columns) * stride;
      const ay = Math.floor(cell / columns) * stride;
      const side = (k: number): number => (boxes[i * 4 + k] as number) * stride;
      const five = Array.from({ length: 5 }, (_, k) => ({
        x: ax + (points[i * 10 + k * 2] as number) * stride,
        y: ay + (points[i * 10 + k * 2 + 1] as number) * stride,
      }));
      faces.push({
        score,
        x: ax - side(0),
        y: ay - side(1),
        width: side(0) + side(2),
        height: side(1) + side(3),
        five,
      });
    }
  }
  return faces;
};

/** Decodes one column per candidate: centre and size of the box, score, then x, y and visibility of five points. */
const columns: Decoder = (outputs, _size, least) => {
  const data = values(outputs, 'faces');
  const count = data.length / 20;
  const faces: FoundFace[] = [];
  for (let i = 0; i < count; i++) {
    const at = (row: number): number => data[row * count + i] as number;
    const score = at(4);
    if (score < least) continue;
    const five = Array.from({ length: 5 }, (_, k) => ({ x: at(5 + k * 3), y: at(6 + k * 3) }));
    faces.push({ score, x: at(0) - at(2) / 2, y: at(1) - at(3) / 2, width: at(2), height: at(3), five });
  }
  return faces;
};

/** Decodes one anchor per cell. The score is the geometric mean of class and objectness; sizes are logarithms. */
const anchorFree: Decoder = (outputs, size, least) => {
  const faces: FoundFace[] = [];
  const unit = (value: number): number => Math.min(1, Math.max(0, value));
  for (const stride of STRIDES) {
    const classes = values(outputs, `cls_${stride}`);
    const objects = values(outputs, `obj_${stride}`);
    const boxes = values(outputs, `bbox_${stride}`);
    const points = values(outputs, `kps_${stride}`);
    const across = size / stride;
    for (let i = 0; i < classes.length; i++) {
      const score = Math.sqrt(unit(classes[i] as number) * unit(objects[i] as number));
      if (score < least) continue;
      const column = i % across;
      const row = Math.floor(i / across);
      const box = (k: number): number => boxes[i * 4 + k] as number;
      const width = Math.exp(box(2)) * stride;
      const height = Math.exp(box(3)) * stride;
      const five = Array.from({ length: 5 }, (_, k) => ({
        x: (column + (points[i * 10 + k * 2] as number)) * stride,
        y: (row + (points[i * 10 + k * 2 + 1] as number)) * stride,
      }));
      faces.push({
        score,
        x: (column + box(0)) * stride - width / 2,
        y: (row + box(1)) * stride - height / 2,
        width,
        height,
        five,
      });
    }
  }
  return faces;
};

const DECODERS: Readonly<Record<string, Decoder>> = {
  'scrfd_2.5g': anchored,
  retinaface_10g: anchored,
  yoloface_8n: columns,
  yunet_2023_mar: anchorFree,
};

function values(outputs: FloatTensors, role: string): Float32Array {
  return (outputs[role] as FloatTensor).data;
}

/** Returns the best of each group of overlapping boxes (greedy non-maximum suppression), best first. */
function suppress(faces: readonly FoundFace[]): FoundFace[] {
  const kept: FoundFace[] = [];
  for (const face of faces.toSorted((a, b) => b.score - a.score)) {
    if (kept.every((other) => overlap(face, other) <= MAX_OVERLAP)) kept.push(face);
  }
  return kept;
}

function overlap(a: FoundFace, b: FoundFace): number {
  const width = Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x);
  const height = Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y);
  if (width <= 0 || height <= 0) return 0;
  const shared = width * height;
  return shared / (a.width * a.height + b.width * b.height - shared);
}

function* tiles(picture: Picture, side: number): Generator<[number, number]> {
  for (const top of offsets(picture.height, side))
    for (const left of offsets(picture.width, side)) yield [left, top];
}

/** Returns the starts of parts of `side` that cover `length` evenly and overlap by a quarter. */
function offsets(length: number, side: number): number[] {
  if (length <= side) return [0];
  const count = Math.ceil((length - TILE_OVERLAP * side) / (side * (1 - TILE_OVERLAP)));
  return Array.from({ length: count }, (_, i) => (i * (length - side)) / (count - 1));
}

/** Returns the image in the top left corner of a black square. */
function onBlack(image: RgbImage, size: number): RgbImage {
  if (image.width === size && image.height === size) return image;
  const data = new Float32Array(size * size * 3);
  for (let y = 0; y < image.height; y++) {
    data.set(image.data.subarray(y * image.width * 3, (y + 1) * image.width * 3), y * size * 3);
  }
  return { width: size, height: size, data };
}
