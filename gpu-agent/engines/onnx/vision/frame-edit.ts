import type { ColorTags, VideoFrame } from '../../../media/types.ts';
import { evenRect, regionToRgb, rgbToRegion } from '../../../media/yuv.ts';
import { sample } from '../../builtin/swap/plane.ts';
import { type Face, faceFromPoints } from '../../builtin/vision/face-mesh.ts';
import type { Picture } from '../../builtin/vision/picture.ts';
import type { PasteMask } from './paste.ts';

type Frame = Pick<VideoFrame, 'width' | 'height' | 'data'>;
type Colors = Pick<ColorTags, 'range' | 'space'>;

/** How far the crops of the models reach around a face, as a share of its extent. */
const REACH = 0.6;
const SMALLEST = 16;

/**
 * Changes the surroundings of a face in a frame, as RGB. Outside of the masks that `edit` gives back the frame keeps its
 * bytes.
 * @param edit gets the part of the frame and the face in pixels of that part
 */
export async function editAround(
  frame: Frame,
  face: Face,
  colors: Colors,
  edit: (picture: Picture, face: Face) => Promise<readonly PasteMask[]>,
): Promise<void> {
  const xs = face.points.filter((_, i) => i % 3 === 0);
  const ys = face.points.filter((_, i) => i % 3 === 1);
  const [left, top, right, bottom] = [least(xs), least(ys), most(xs), most(ys)];
  const margin = REACH * Math.max(right - left, bottom - top);
  const box = {
    x: left - margin,
    y: top - margin,
    width: right - left + 2 * margin,
    height: bottom - top + 2 * margin,
  };
  const rect = evenRect(box, frame);
  if (rect.width < SMALLEST || rect.height < SMALLEST) return;
  const picture = regionToRgb(frame, rect, colors);
  const masks = await edit(picture, shifted(face, -rect.x, -rect.y));
  rgbToRegion(frame, rect, picture.data, colors, changedPixels(picture, masks));
}

/** 255 where one of the masks changes something. */
function changedPixels({ width, height }: Picture, masks: readonly PasteMask[]): Uint8Array {
  const changed = new Uint8Array(width * height);
  for (const { originX, originY, scale, share } of masks) {
    const bottom = Math.min(height, Math.ceil(originY + share.height * scale));
    const right = Math.min(width, Math.ceil(originX + share.width * scale));
    for (let y = Math.max(0, Math.floor(originY)); y < bottom; y++) {
      for (let x = Math.max(0, Math.floor(originX)); x < right; x++) {
        const inside = sample(share, (x + 0.5 - originX) / scale, (y + 0.5 - originY) / scale) > 0;
        if (inside) changed[y * width + x] = 255;
      }
    }
  }
  return changed;
}

function shifted(face: Face, dx: number, dy: number): Face {
  const points = face.points.map((value, i) => value + (i % 3 === 0 ? dx : i % 3 === 1 ? dy : 0));
  return faceFromPoints(points, face.score);
}

function least(values: Float32Array): number {
  return values.reduce((a, b) => Math.min(a, b), Infinity);
}

function most(values: Float32Array): number {
  return values.reduce((a, b) => Math.max(a, b), -Infinity);
}
