import type { Picture } from '@semblance/engine-api/picture';
import { type InferenceSession, Tensor } from 'onnxruntime-node';
import { type Point, shrink } from './picture.ts';

/** Face as the detector sees it: a roughly square bounding box and six points, in pixels of the picture. */
export interface Detection {
  readonly score: number;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
  /** Right eye, left eye, nose tip, mouth, right ear, left ear. */
  readonly keyPoints: readonly Point[];
}

const SIZE = 256;
/** Smallest width of the box in pixels of the network's input at which a face is found reliably (measured). */
const SMALLEST_IN_INPUT = 30;
const OVERLAP = 64;
const MIN_SCORE = 0.55;
const MERGE_OVERLAP = 0.35;

/**
 * Finds faces of any size with BlazeFace (Bazarevsky et al. 2019, "BlazeFace: Sub-millisecond Neural Face Detection
 * on Mobile GPUs"), whose input is 256². It searches the whole picture, then overlapping tiles of ever finer
 * scales, down to faces of `minFace` pixels.
 */
export class FaceDetector {
  readonly #session: InferenceSession;

  constructor(session: InferenceSession) {
    this.#session = session;
  }

  /**
   * @param options.minFace smallest width of interest in picture pixels, given the faces found so far; a growing
   * number ends the search early once a large face was found
   * @param options.checkpoint called between network runs; throws to stop
   */
  async detect(
    picture: Picture,
    options: { minFace: (found: readonly Detection[]) => number; checkpoint: () => void },
  ): Promise<Detection[]> {
    let found: Detection[] = [];
    // A strip of thousands of pixels would be searched in as many tiles, and shows no face.
    if (Math.min(picture.width, picture.height) < options.minFace([])) return found;
    const longest = Math.max(picture.width, picture.height);
    let reduction = longest / SIZE;
    const finest = Math.max(1, options.minFace([]) / SMALLEST_IN_INPUT);
    for (;;) {
      const level = resized(picture, reduction);
      const zoom = picture.width / level.width;
      for (const [tileX, tileY] of tiles(level)) {
        options.checkpoint();
        found.push(...(await this.#runTile(level, tileX, tileY, zoom)));
      }
      found = mergeOverlapping(found);
      if (reduction * SMALLEST_IN_INPUT <= options.minFace(found) || reduction <= finest) return found;
      reduction = Math.max(reduction / 2, finest);
    }
  }

  async #runTile(level: Picture, tileX: number, tileY: number, zoom: number): Promise<Detection[]> {
    const input = new Float32Array(SIZE * SIZE * 3);
    const rows = Math.min(SIZE, level.height - tileY);
    const columns = Math.min(SIZE, level.width - tileX);
    const { channels } = level;
    for (let y = 0; y < rows; y++) {
      for (let x = 0; x < columns; x++) {
        const from = ((tileY + y) * level.width + tileX + x) * channels;
        const to = (y * SIZE + x) * 3;
        for (let c = 0; c < 3; c++) {
          input[to + c] = (level.data[from + (channels >= 3 ? c : 0)] as number) / 127.5 - 1;
        }
      }
    }
    const outputs = await this.#session.run({
      [this.#session.inputNames[0] ?? '']: new Tensor('float32', input, [1, SIZE, SIZE, 3]),
    });
    const detections: Detection[] = [];
    for (const { scores, boxes, stride, perCell } of LAYERS) {
      const logits = outputs[scores]?.data as Float32Array;
      const values = outputs[boxes]?.data as Float32Array;
      const cells = SIZE / stride;
      for (let i = 0; i < logits.length; i++) {
        const score = 1 / (1 + Math.exp(-(logits[i] as number)));
        if (score < MIN_SCORE) continue;
        const cell = Math.floor(i / perCell);
        const anchorX = ((cell % cells) + 0.5) * stride;
        const anchorY = (Math.floor(cell / cells) + 0.5) * stride;
        const value = (k: number): number => values[i * 16 + k] as number;
        const place = (dx: number, dy: number): Point => ({
          x: (tileX + anchorX + dx) * zoom,
          y: (tileY + anchorY + dy) * zoom,
        });
        const corner = place(value(0) - value(2) / 2, value(1) - value(3) / 2);
        const keyPoints = Array.from({ length: 6 }, (_, k) => place(value(4 + 2 * k), value(5 + 2 * k)));
        detections.push({ score, ...corner, width: value(2) * zoom, height: value(3) * zoom, keyPoints });
      }
    }
    return detections;
  }
}

const LAYERS = [
  { scores: 'scores16', boxes: 'boxes16', stride: 16, perCell: 2 },
  { scores: 'scores32', boxes: 'boxes32', stride: 32, perCell: 6 },
] as const;

/** Shrinks the picture `reduction`-fold to the eight-bit colour that the network expects; never enlarges it. */
function resized(picture: Picture, reduction: number): Picture {
  if (reduction <= 1 && picture.data instanceof Uint8Array) return picture;
  const by = Math.max(1, reduction);
  const size = (length: number): number => Math.max(1, Math.round(length / by));
  return shrink(picture, size(picture.width), size(picture.height));
}

function* tiles(level: Picture): Generator<[number, number]> {
  for (const y of offsets(level.height)) for (const x of offsets(level.width)) yield [x, y];
}

/** Returns tile starts that cover `length` evenly with an overlap of at least OVERLAP pixels. */
function offsets(length: number): number[] {
  if (length <= SIZE) return [0];
  const count = Math.ceil((length - OVERLAP) / (SIZE - OVERLAP));
  return Array.from({ length: count }, (_, i) => Math.round((i * (length - SIZE)) / (count - 1)));
}

function overlap(a: Detection, b: Detection): { union: number; contained: number } {
  const w = Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x);
  const h = Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y);
  const shared = w > 0 && h > 0 ? w * h : 0;
  const areas = [a.width * a.height, b.width * b.height] as const;
  return { union: shared / (areas[0] + areas[1] - shared), contained: shared / Math.min(...areas) };
}

/** Keeps the best box of each group on the same face, with the score-weighted mean position of the group. */
function mergeOverlapping(detections: readonly Detection[]): Detection[] {
  const rest = [...detections].sort((a, b) => b.score - a.score);
  const merged: Detection[] = [];
  while (rest.length > 0) {
    const best = rest.shift() as Detection;
    const group = [best];
    for (let i = rest.length - 1; i >= 0; i--) {
      const other = rest[i] as Detection;
      const { union, contained } = overlap(best, other);
      if (union > MERGE_OVERLAP || contained > 0.7) {
        rest.splice(i, 1);
        if (union > MERGE_OVERLAP) group.push(other);
      }
    }
    merged.push(average(group));
  }
  return merged;
}

function average(group: readonly Detection[]): Detection {
  const total = group.reduce((sum, d) => sum + d.score, 0);
  const mean = (pick: (d: Detection) => number): number =>
    group.reduce((sum, d) => sum + pick(d) * d.score, 0) / total;
  const first = group[0] as Detection;
  return {
    score: first.score,
    x: mean((d) => d.x),
    y: mean((d) => d.y),
    width: mean((d) => d.width),
    height: mean((d) => d.height),
    keyPoints: first.keyPoints.map((_, k) => ({
      x: mean((d) => (d.keyPoints[k] as Point).x),
      y: mean((d) => (d.keyPoints[k] as Point).y),
    })),
  };
}
