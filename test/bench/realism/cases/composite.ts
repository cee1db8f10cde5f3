import type { Picture } from '@semblance/engine-api/picture';
import { applyTone, findTone } from '@semblance/engine-builtin/internal/swap/tone';
import { seeded } from '@semblance/testkit/sound/random';
import type { Face } from '@semblance/vision/face-mesh';
import { FACE_OVAL } from '@semblance/vision/face-regions';
import { cropRgb, type RgbImage, squareCrop } from '@semblance/vision/picture';
import { blur, fillPolygon, type Plane, plane } from '@semblance/vision/plane/plane';
import { level, linear } from './colour.ts';
import type { HeadFrame } from './head-frame.ts';
import { type Layer, toPictureSize } from './layer.ts';
import type { Light } from './light.ts';
import { grain } from './noise.ts';
import type { Sharpness } from './sharpness.ts';

/** Picture with an object in front of the face. */
export interface Occluded {
  readonly picture: Picture;
  /** Share of each pixel that the object covers, at the size of the picture. */
  readonly mask: Plane;
  /** Share of the light that the object's shadow takes from each pixel. A pixel with neither is unchanged. */
  readonly shadow: Plane;
}

/** Coverage below which a pixel counts as free and keeps its bytes. */
const LEAST = 1 / 512;

/** Scene of one drawn object. */
export interface Scene {
  readonly picture: Picture;
  readonly face: Face;
  readonly head: HeadFrame;
  readonly light: Light;
  readonly sharpness: Sharpness;
  readonly seed: number;
}

/** Puts a layer onto the picture: its shadow first, its edges as soft and its surface as grainy as the picture. */
export function composite(scene: Scene, layer: Layer, crisp = false): Occluded {
  const { picture, sharpness, seed } = scene;
  const { width, height } = picture;
  const soft = crisp ? 0 : Math.sqrt(Math.max(0, sharpness.edge ** 2 - 0.4 ** 2));
  const field = (data: Float32Array, stride: number, at: number): Plane =>
    blur(toPictureSize(layer.grid, data, stride, at, picture), soft);
  const mask = field(layer.alpha, 1, 0);
  const light = [0, 1, 2].map((c) => field(layer.light, 3, c));
  const shadow = shadowOf(scene, layer, mask);
  const noise = grain(seeded(seed ^ 0x5eed), width, height);
  const data = new Uint8Array(picture.data);
  const tone = findTone(surroundings(picture, scene.face));
  const rgb = new Float32Array(3);
  for (let i = 0; i < mask.data.length; i++) {
    const a = Math.min(1, mask.data[i] as number);
    if (a < LEAST) mask.data[i] = 0;
    else mask.data[i] = a;
    const dark = shadow.data[i] as number;
    if (a < LEAST && dark === 0) continue;
    const covered = a < LEAST ? 0 : a;
    for (let c = 0; c < 3; c++) {
      const under = linear(data[i * 3 + c] as number) * (1 - dark);
      rgb[c] = level(under * (1 - covered) + (covered > 0 ? ((light[c] as Plane).data[i] as number) : 0));
    }
    if (tone) applyTone(tone, rgb);
    const grainy = crisp ? 0 : (noise.data[i] as number) * Math.max(0.5, sharpness.noise) * covered;
    for (let c = 0; c < 3; c++)
      data[i * 3 + c] = Math.min(255, Math.max(0, Math.round((rgb[c] as number) + grainy)));
  }
  return { picture: { width, height, channels: 3, data }, mask, shadow };
}

/** Side of the crop by which the tone of a picture is judged, in pixels. */
const TONE_SIDE = 256;

function surroundings(picture: Picture, { points, width }: Face): RgbImage {
  const nose = { x: points[12] as number, y: points[13] as number };
  return cropRgb(picture, squareCrop(nose, 3 * width, 0, TONE_SIDE), TONE_SIDE, TONE_SIDE, 2);
}

/** Returns the shadow that a layer casts on the face: the layer's shape, moved away from the light and softened. */
function shadowOf(scene: Scene, layer: Layer, mask: Plane): Plane {
  const { width, height } = mask;
  const out = plane(width, height);
  if (layer.shade === 0) return out;
  const { face, head, light } = scene;
  const fall = head.directionToPicture([-light.towards[0], -light.towards[1], 0]);
  const [dx, dy] = [fall[0], fall[1]].map((d) => Math.round((d as number) * 1.3 * layer.gap * face.width));
  const receiver = plane(width, height);
  fillPolygon(
    receiver,
    FACE_OVAL.flatMap((i) => [face.points[i * 3] as number, face.points[i * 3 + 1] as number]),
  );
  const within = blur(receiver, 0.01 * face.width);
  // Ambient light leaves a wide, faint shadow all around; the main light a narrow one to its far side.
  const near = blur(mask, (0.35 * layer.gap + 0.008) * face.width);
  const wide = blur(mask, (1.1 * layer.gap + 0.02) * face.width);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const i = y * width + x;
      if ((within.data[i] as number) < 0.01) continue;
      const [sx, sy] = [x - (dx ?? 0), y - (dy ?? 0)];
      const cast =
        sx >= 0 && sy >= 0 && sx < width && sy < height ? (near.data[sy * width + sx] as number) : 0;
      const side = 0.45 + 0.55 * light.strength;
      const dark = layer.shade * (side * cast + 0.45 * (wide.data[i] as number)) * (within.data[i] as number);
      // A faint remainder would change no byte, and the mask says exactly which bytes change.
      out.data[i] = dark < 0.004 ? 0 : Math.min(0.85, dark);
    }
  }
  return out;
}
