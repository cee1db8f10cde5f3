import { readFileSync } from 'node:fs';
import { type InferenceSession, Tensor } from 'onnxruntime-node';
import { type CropSource, extentOf, type Face, type FaceMesher } from './face-mesh.ts';
import { type Point, squareCrop } from './picture.ts';

/** Side of the network's input, and of its crop relative to the extent of the mesh. */
const SIZE = 160;
const CROP_SCALE = 1.6;
/** Channels and grid of the network's last layer. The check reads the middle 3 × 3 cells of the grid. */
const CHANNELS = 512;
const GRID = 5;
const ROWS = [1, 2, 3] as const;
/** Number of values that describe a crop: for each of three rows, the mean of each channel. */
export const FEATURES = ROWS.length * CHANNELS;
/** Shares of the darkest and brightest pixels that the stretched contrast leaves out. */
const CLIPPED = 0.02;
/** Disturbances of the mesh's crop under which its score stays high on a face. */
const DISTURBED = [
  { zoom: 1.25, turn: 0 },
  { zoom: 1, turn: 0.3 },
  { zoom: 1, turn: -0.3 },
] as const;
/** What a steady mesh adds to the likeness, and the sum from which a mesh lies on a face (measured). */
const STEADY = 3;
const LEAST = 1.5;

/** A linear classifier: the likeness to a face is `bias + weights · features`. */
export interface FaceWeights {
  readonly bias: number;
  readonly weights: Float32Array;
}

/**
 * Tells human faces, painted ones included, from animals and patterns on which the detector and the mesh also
 * settle. It asks a network that neither of them shares anything with: the layers of the tiny face detector of
 * `@vladmandic/face-api`, read by a classifier that tools/train-face-check trains. Where that is undecided, the
 * mesh is fitted again in disturbed crops: on a face its score stays high, elsewhere it falls.
 */
export class FaceCheck {
  readonly #session: InferenceSession;
  readonly #mesher: FaceMesher;
  readonly #weights: FaceWeights;

  constructor(session: InferenceSession, mesher: FaceMesher, weights = shippedWeights()) {
    this.#session = session;
    this.#mesher = mesher;
    this.#weights = weights;
  }

  /** Whether a mesh lies on a face. It runs the network twice, and up to three fits where that is undecided. */
  async isFace(source: CropSource, face: Face): Promise<boolean> {
    const likeness = await this.likeness(source, face);
    if (likeness >= LEAST || likeness + STEADY < LEAST) return likeness >= LEAST;
    return likeness + STEADY * (await this.steadiness(source, face)) >= LEAST;
  }

  /** Returns the classifier's sum, the mean of the crop and its mirror image; above 0 it is more likely a face. */
  async likeness(source: CropSource, face: Face): Promise<number> {
    const { bias, weights } = this.#weights;
    let sum = 0;
    for (const features of await this.features(source, { ...extentOf(face), roll: face.roll })) {
      for (let i = 0; i < FEATURES; i++) sum += (features[i] as number) * (weights[i] as number);
    }
    return bias + sum / 2;
  }

  /** Returns the mean score of the mesh in disturbed crops, in [0, 1]. */
  async steadiness(source: CropSource, face: Face): Promise<number> {
    let sum = 0;
    for (const disturbed of DISTURBED) sum += (await this.#mesher.refineFrom(source, face, disturbed)).score;
    return sum / DISTURBED.length;
  }

  /** Describes a place by {@link FEATURES} values, and its mirror image by as many. */
  async features(
    source: CropSource,
    { center, side, roll }: { readonly center: Point; readonly side: number; readonly roll: number },
  ): Promise<[Float32Array, Float32Array]> {
    const crop = source(squareCrop(center, CROP_SCALE * side, roll, SIZE), SIZE);
    const planes = stretched(crop);
    const plain = await this.#run(planes);
    return [plain, await this.#run(mirrored(planes))];
  }

  async #run(planes: Float32Array): Promise<Float32Array> {
    const outputs = await this.#session.run({ input: new Tensor('float32', planes, [1, 3, SIZE, SIZE]) });
    const layer = outputs.features?.data as Float32Array;
    const features = new Float32Array(FEATURES);
    for (const [r, row] of ROWS.entries()) {
      for (let c = 0; c < CHANNELS; c++) {
        const at = (c * GRID + row) * GRID + 1;
        features[r * CHANNELS + c] =
          ((layer[at] as number) + (layer[at + 1] as number) + (layer[at + 2] as number)) / 3;
      }
    }
    return features;
  }
}

function shippedWeights(): FaceWeights {
  const { bias, scale, weights } = JSON.parse(
    readFileSync(new URL('./face-check-weights.json', import.meta.url), 'utf8'),
  ) as { bias: number; scale: number; weights: string };
  const bytes = new Int8Array(Buffer.from(weights, 'base64'));
  if (bytes.length !== FEATURES) throw new Error('face-check-weights.json has another number of weights');
  return { bias, weights: Float32Array.from(bytes, (value) => value * scale) };
}

/** Returns the planes of a crop with its contrast stretched, because the network sees little in the dark. */
function stretched(rgb: Float32Array): Float32Array {
  const pixels = SIZE * SIZE;
  const counts = new Uint32Array(256);
  for (let i = 0; i < pixels; i++) {
    const mean = ((rgb[i * 3] as number) + (rgb[i * 3 + 1] as number) + (rgb[i * 3 + 2] as number)) / 3;
    const bin = Math.min(255, Math.max(0, Math.round(mean)));
    counts[bin] = (counts[bin] as number) + 1;
  }
  const [dark, bright] = [quantile(counts, CLIPPED), quantile(counts, 1 - CLIPPED)];
  const gain = 220 / Math.max(20, bright - dark);
  const planes = new Float32Array(3 * pixels);
  for (let i = 0; i < pixels; i++) {
    for (let c = 0; c < 3; c++) {
      const value = ((rgb[i * 3 + c] as number) - dark) * gain + 20;
      planes[c * pixels + i] = Math.min(255, Math.max(0, value));
    }
  }
  return planes;
}

function quantile(counts: Uint32Array, share: number): number {
  let left = share * SIZE * SIZE;
  for (const [value, count] of counts.entries()) {
    left -= count;
    if (left <= 0) return value;
  }
  return 255;
}

function mirrored(planes: Float32Array): Float32Array {
  const out = planes.slice();
  for (let row = 0; row < out.length; row += SIZE) out.subarray(row, row + SIZE).reverse();
  return out;
}
