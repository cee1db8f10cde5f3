import { type RgbImage, sampleRgb } from '@semblance/vision/picture';
import { blur, type Plane, plane, sample } from '@semblance/vision/plane/plane';
import type { WarpMap } from '@semblance/vision/plane/warp-map';

/** Width of the neighbourhood whose mean is the light of a place, as a share of the face width. */
const LIGHT_AROUND = 0.08;
/** Largest factor by which a colour is brightened to fit its new place. */
const MAX_GAIN = 2.5;

/** The content that replaces the hidden parts of a face, on the coarse grid of its patch. */
export interface MirrorImage {
  /** Share of the mirror image. */
  readonly share: Plane;
  readonly map: WarpMap;
  /** Smooth skin colour: red, green, blue. */
  readonly light: readonly Plane[];
}

/**
 * Returns the mirror image of a face for its hidden parts.
 * @param skin the skin of the face, with features and hidden parts filled in
 */
export function mirrorImage(share: Plane, map: WarpMap, skin: RgbImage, faceWidth: number): MirrorImage {
  const light = channels(skin).map((channel) => blur(channel, LIGHT_AROUND * faceWidth));
  return { share, map, light };
}

/**
 * Replaces the hidden parts of a face by its mirror image, in the light of their own side. Changes the image.
 * @param scale coarse grid pixels per image pixel
 */
export function showOtherSide(image: RgbImage, { share, map, light }: MirrorImage, scale: number): void {
  const { width, height, data } = image;
  const rgb = new Float32Array(3);
  for (let y = 0, o = 0; y < height; y++) {
    for (let x = 0; x < width; x++, o += 3) {
      const gx = (x + 0.5) * scale;
      const gy = (y + 0.5) * scale;
      const part = sample(share, gx, gy);
      // The map has no values beside the outline, so it cannot be interpolated there.
      if (part < 0.004 || sample(map.covered, gx, gy) < 0.999) continue;
      const mx = sample(map.x, gx, gy);
      const my = sample(map.y, gx, gy);
      sampleRgb(image, mx / scale, my / scale, rgb);
      for (let c = 0; c < 3; c++) {
        const level = light[c] as Plane;
        const gain = Math.min(MAX_GAIN, (sample(level, gx, gy) + 2) / (sample(level, mx, my) + 2));
        const was = data[o + c] as number;
        data[o + c] = was + ((rgb[c] as number) * gain - was) * part;
      }
    }
  }
}

function channels({ width, height, data }: RgbImage): Plane[] {
  return [0, 1, 2].map((c) => {
    const out = plane(width, height);
    for (let i = 0; i < out.data.length; i++) out.data[i] = data[i * 3 + c] as number;
    return out;
  });
}
