import type { VideoFrame } from '@semblance/media/types';
import { rgbToRegion } from '@semblance/media/yuv';
import { ASTRONAUT } from '@semblance/testkit/engine-builtin/swap-rig';
import { COLOR, cropOf } from '@semblance/testkit/engine-builtin/video-swap/clips';
import type { GivenModel } from '@semblance/testkit/engine-onnx/model-dir-rig';
import { type FaceNetworks, openFaceNetworks } from '@semblance/testkit/engine-onnx/pooled-swap';
import { tinyArcface, tinySwapper } from '@semblance/testkit/engine-onnx/tiny-models';
import type { Face } from '@semblance/vision/face-mesh';
import { readFace } from '@semblance/vision/image/picture-file';
import { cropRgb } from '@semblance/vision/picture';

const SIZE = { width: 1920, height: 1080 };
/** The face of the picture, and frame pixels per pixel of it. */
const MIDDLE = { x: 224, y: 110 };
const ZOOM = 4;

/** Models that swap a face and cost next to nothing. */
export const SWAPPER: readonly GivenModel[] = [
  { contract: 'arcface_w600k_r50', bytes: tinyArcface() },
  { contract: 'hyperswap_1a_256', bytes: tinySwapper({ size: 256, batch: 'n' }) },
];

/** A frame of 1080p with one face, and what finds it. */
export interface SwapScene extends FaceNetworks {
  readonly frame: VideoFrame;
  readonly face: Face;
}

export async function filmScene(): Promise<SwapScene> {
  const networks = await openFaceNetworks();
  const picture = await readFace(ASTRONAUT);
  const shown = cropRgb(picture, cropOf({ ...MIDDLE, zoom: ZOOM }, SIZE), SIZE.width, SIZE.height);
  const data = new Uint8Array((SIZE.width * SIZE.height * 3) / 2);
  rgbToRegion({ ...SIZE, data }, { x: 0, y: 0, ...SIZE }, shown.data, COLOR);
  const seen = { ...SIZE, channels: 3 as const, data: Uint8Array.from(shown.data, Math.round) };
  const [face] = await networks.finder.find(seen, () => undefined);
  if (!face) throw new Error('no face in the frame of the bench');
  return { ...networks, frame: { ...SIZE, index: 0, ptsUs: 0, data }, face };
}
