import { type InferenceSession, Tensor } from 'onnxruntime-node';
import { type CropSource, type Face, POINTS } from './face-mesh.ts';
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
    const cos = Math.cos(face.roll);
    const sin = Math.sin(face.roll);
    let [left, right, top, bottom] = [Infinity, -Infinity, Infinity, -Infinity];
    for (let i = 0; i < POINTS; i++) {
      const x = face.points[i * 3] as number;
      const y = face.points[i * 3 + 1] as number;
      left = Math.min(left, cos * x + sin * y);
      right = Math.max(right, cos * x + sin * y);
      top = Math.min(top, -sin * x + cos * y);
      bottom = Math.max(bottom, -sin * x + cos * y);
    }
    const u = (left + right) / 2;
    const v = (top + bottom) / 2;
    const centre = { x: cos * u - sin * v, y: sin * u + cos * v };
    const side = CROP_SCALE * Math.max(right - left, bottom - top);
    const data = source(squareCrop(centre, side, face.roll, SIZE), SIZE);
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
