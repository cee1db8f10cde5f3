import { type InferenceSession, Tensor } from 'onnxruntime-node';
import { type CropSource, extentOf, type Face } from './face-mesh.ts';
import { squareCrop } from './picture.ts';

const SIZE = 224;
/** Side of the network's crop relative to the extent of the mesh. */
const CROP_SCALE = 1.35;

/**
 * Computes a 1024-d descriptor of identity (`faceres` of `@vladmandic/human`), to be compared by {@link sameness}.
 */
export class FaceRecogniser {
  readonly #session: InferenceSession;

  constructor(session: InferenceSession) {
    this.#session = session;
  }

  async describe(source: CropSource, face: Face): Promise<Float32Array> {
    const { center, side } = extentOf(face);
    const data = source(squareCrop(center, CROP_SCALE * side, face.roll, SIZE), SIZE);
    const outputs = await this.#session.run({
      [this.#session.inputNames[0] ?? '']: new Tensor('float32', data, [1, SIZE, SIZE, 3]),
    });
    return Float32Array.from(outputs.descriptor?.data as Float32Array);
  }
}

/** Returns the cosine of two descriptors: about 0.4 for two people, 0.7 and more for one. */
export function sameness(a: Float32Array, b: Float32Array): number {
  let [ab, aa, bb] = [0, 0, 0];
  for (let i = 0; i < a.length; i++) {
    const x = a[i] as number;
    const y = b[i] as number;
    ab += x * y;
    aa += x * x;
    bb += y * y;
  }
  return ab / Math.max(1e-9, Math.sqrt(aa * bb));
}
