import type { RgbImage } from '@semblance/vision/picture';
import type { Traits } from '../contracts/contract.ts';
import type { FloatTensor } from '../sessions/protocol.ts';

const PLAIN = [0, 0, 0] as const;
const ONES = [1, 1, 1] as const;

/** Converts an interleaved image to the normalised planes that a network expects. */
export function toPlanes(image: RgbImage, traits: Traits): FloatTensor {
  const { width, height, data } = image;
  const { mean = PLAIN, deviation = ONES, order = 'rgb' } = traits;
  const size = width * height;
  const out = new Float32Array(3 * size);
  for (let c = 0; c < 3; c++) {
    const from = order === 'rgb' ? c : 2 - c;
    const factor = 1 / (255 * (deviation[c] as number));
    const offset = (mean[c] as number) / (deviation[c] as number);
    const base = c * size;
    for (let i = 0; i < size; i++) out[base + i] = (data[i * 3 + from] as number) * factor - offset;
  }
  return { data: out, dims: [1, 3, height, width] };
}

/** Converts planes to an image, 0–255. */
export function fromPlanes(tensor: FloatTensor, traits: Traits): RgbImage {
  const [height = 0, width = 0] = tensor.dims.slice(-2);
  const { mean = PLAIN, deviation = ONES, order = 'rgb', denormalise = false } = traits;
  const size = width * height;
  const data = new Float32Array(3 * size);
  for (let c = 0; c < 3; c++) {
    const to = order === 'rgb' ? c : 2 - c;
    const factor = 255 * (denormalise ? (deviation[c] as number) : 1);
    const offset = denormalise ? 255 * (mean[c] as number) : 0;
    const base = c * size;
    for (let i = 0; i < size; i++) {
      const value = (tensor.data[base + i] as number) * factor + offset;
      data[i * 3 + to] = value > 0 ? Math.min(255, value) : 0;
    }
  }
  return { width, height, data };
}

/** Returns interleaved samples (NHWC), 0–1. */
export function toInterleaved(image: RgbImage, traits: Traits): FloatTensor {
  const { width, height, data } = image;
  const bgr = traits.order === 'bgr';
  const out = new Float32Array(data.length);
  for (let i = 0; i < data.length; i += 3) {
    out[i] = (data[bgr ? i + 2 : i] as number) / 255;
    out[i + 1] = (data[i + 1] as number) / 255;
    out[i + 2] = (data[bgr ? i : i + 2] as number) / 255;
  }
  return { data: out, dims: [1, height, width, 3] };
}

/** Converts interleaved samples (NHWC), 0–1, to an image, 0–255. */
export function fromInterleaved({ data, dims }: FloatTensor, traits: Traits): RgbImage {
  const [height = 0, width = 0] = dims.slice(-3);
  const bgr = traits.order === 'bgr';
  const out = new Float32Array(width * height * 3);
  for (let i = 0; i < out.length; i += 3)
    for (let c = 0; c < 3; c++)
      out[i + c] = Math.min(255, Math.max(0, 255 * (data[i + (bgr ? 2 - c : c)] as number)));
  return { width, height, data: out };
}
