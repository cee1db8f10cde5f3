import { expect, it } from 'vitest';
import { toPlanes } from '../vision/tensors.ts';
import { CONTRACTS } from './catalog.ts';

/** One pixel: red 255, green 127.5, blue 0. */
const PIXEL = { width: 1, height: 1, data: Float32Array.of(255, 127.5, 0) };

it.each([
  // The training order: RGB, centred on 0.
  ['scrfd_2.5g', [127.5 / 128, 0, -127.5 / 128]],
  ['retinaface_10g', [127.5 / 128, 0, -127.5 / 128]],
  ['2dfan4', [1, 0.5, 0]],
  ['arcface_w600k_r50', [1, 0, -1]],
  // OpenCV's own order: BGR, not scaled.
  ['yunet_2023_mar', [0, 127.5, 255]],
  ['live_portrait_feature_extractor', [1, 0.5, 0]],
  ['live_portrait_motion_extractor', [1, 0.5, 0]],
])('feeds colours to a %s as it was trained', (contract, wanted) => {
  const { data } = toPlanes(PIXEL, CONTRACTS.get(contract)?.traits ?? {});
  for (const [c, value] of wanted.entries()) expect(data[c]).toBeCloseTo(value, 4);
});
