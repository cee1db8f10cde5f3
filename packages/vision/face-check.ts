import { type InferenceSession, Tensor } from 'onnxruntime-node';
import { type CropSource, type Face, type FaceMesher, type Place, placeOf } from './face-mesh.ts';
import { DESCRIPTOR, type FaceRecogniser } from './face-recogniser.ts';
import { type FaceWeights, likenessOf, readWeights } from './face-weights.ts';
import { squareCrop } from './picture.ts';

/** Side of the network's input, and of its crop relative to the extent of the mesh. */
const SIZE = 160;
const CROP_SCALE = 1.6;
/** Channels and grid of the network's last layer. The check reads the middle 3 × 3 cells of the grid. */
const CHANNELS = 512;
const GRID = 5;
const ROWS = [1, 2, 3] as const;
/** Number of values that describe a crop: for each of three rows, the mean of each channel. */
export const FEATURES = ROWS.length * CHANNELS;
const SHIPPED = readWeights('./face-check-weights.json', FEATURES);
const OF_DESCRIPTORS = readWeights('./face-check-descriptor-weights.json', DESCRIPTOR);
/** Shares of the darkest and brightest pixels that the stretched contrast leaves out. */
const CLIPPED = 0.02;
/** Disturbances of the mesh's crop under which its score stays high on a face. */
const DISTURBED = [
  { zoom: 1.25, turn: 0 },
  { zoom: 1, turn: 0.3 },
  { zoom: 1, turn: -0.3 },
] as const;
/** Likeness from which, and below whose negative, the first look decides. */
const SURE = 4;
/** What a steady mesh adds to the likeness, and the sums from which a mesh lies on a face (measured). */
const STEADY = 3;
const LEAST = { ofFirstLook: 1.5, ofBoth: 3.1 } as const;

/** What a {@link FaceCheck} asks beside the network of its first look. */
export interface FaceCheckOptions {
  readonly mesher: FaceMesher;
  /** Opens the network of the second look. Without it there is none. */
  readonly recogniser?: (() => Promise<FaceRecogniser>) | undefined;
  /** Of the first look; by default those that are shipped. */
  readonly weights?: FaceWeights;
}

/**
 * Tells human faces, painted ones included, from animals and patterns on which the detector and the mesh also
 * settle. It asks a network that neither of them shares anything with: the layers of the tiny face detector of
 * `@vladmandic/face-api`, read by a classifier that tools/train-face-check trains. Where that is undecided, it looks
 * closer: the mesh is fitted again in disturbed crops, where its score stays high on a face and falls elsewhere; and
 * what passes may be refused by a second classifier, which reads the descriptor by which people are told apart.
 */
export class FaceCheck {
  readonly #session: InferenceSession;
  readonly #mesher: FaceMesher;
  readonly #recogniser: FaceCheckOptions['recogniser'];
  readonly #weights: FaceWeights;

  constructor(session: InferenceSession, { mesher, recogniser, weights = SHIPPED }: FaceCheckOptions) {
    this.#session = session;
    this.#mesher = mesher;
    this.#recogniser = recogniser;
    this.#weights = weights;
  }

  /**
   * Whether a mesh lies on a face. It runs the first network twice; where that is undecided, three fits, and the
   * second network once.
   */
  async isFace(source: CropSource, face: Face): Promise<boolean> {
    const first = await this.likeness(source, face);
    if (first >= SURE || first <= -SURE) return first > 0;
    const sum = first + STEADY * (await this.steadiness(source, face));
    if (sum < LEAST.ofFirstLook) return false;
    const recogniser = await this.#recogniser?.();
    if (!recogniser) return true;
    const second = likenessOf(OF_DESCRIPTORS, await recogniser.describe(stretched(source), face));
    return sum + second >= LEAST.ofBoth;
  }

  /** Returns the classifier's sum, the mean of the crop and its mirror image; above 0 it is more likely a face. */
  async likeness(source: CropSource, face: Face): Promise<number> {
    const both = await this.features(source, placeOf(face));
    const [plain, mirrored] = both.map((features) => likenessOf(this.#weights, features));
    return ((plain as number) + (mirrored as number)) / 2;
  }

  /** Returns the mean score of the mesh in disturbed crops, in [0, 1]. */
  async steadiness(source: CropSource, face: Face): Promise<number> {
    let sum = 0;
    for (const disturbed of DISTURBED) sum += (await this.#mesher.refineFrom(source, face, disturbed)).score;
    return sum / DISTURBED.length;
  }

  /** Describes a place by {@link FEATURES} values, and its mirror image by as many. */
  async features(source: CropSource, { center, side, roll }: Place): Promise<[Float32Array, Float32Array]> {
    const planes = planesOf(stretched(source)(squareCrop(center, CROP_SCALE * side, roll, SIZE), SIZE));
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

/** Returns crops with their contrast stretched, because the networks see little in the dark. */
export function stretched(source: CropSource): CropSource {
  return (crop, size) => {
    const rgb = source(crop, size);
    const counts = new Uint32Array(256);
    for (let i = 0; i < rgb.length; i += 3) {
      const mean = ((rgb[i] as number) + (rgb[i + 1] as number) + (rgb[i + 2] as number)) / 3;
      const bin = Math.min(255, Math.max(0, Math.round(mean)));
      counts[bin] = (counts[bin] as number) + 1;
    }
    const [dark, bright] = [quantile(counts, CLIPPED), quantile(counts, 1 - CLIPPED)];
    const gain = 220 / Math.max(20, bright - dark);
    return rgb.map((value) => Math.min(255, Math.max(0, (value - dark) * gain + 20)));
  };
}

function planesOf(rgb: Float32Array): Float32Array {
  const pixels = rgb.length / 3;
  return Float32Array.from(rgb, (_, i) => rgb[(i % pixels) * 3 + Math.floor(i / pixels)] as number);
}

function quantile(counts: Uint32Array, share: number): number {
  let left = share * counts.reduce((sum, count) => sum + count, 0);
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
