import type { RgbImage } from '@semblance/vision/picture';
import { blur, type Plane, plane } from '@semblance/vision/plane/plane';
import type { WarpMap } from '@semblance/vision/plane/warp-map';
import { type FaceZones, plainSkin } from './face-zones.ts';
import { type LightField, matchLight } from './light.ts';
import type { SourceFace } from './source-face.ts';

/** Weight of filled-in skin when the light on the source is estimated. */
const FILLED_WEIGHT = 0.15;

export interface LightParts {
  readonly zones: FaceZones;
  readonly direct: WarpMap;
  readonly own: WarpMap;
  readonly covered: Plane;
  readonly shown: Plane;
  /** From 1 near the edge of the replaced area, where light and relief must match closely, to 0 inside. */
  readonly edge: Plane;
  readonly rim: Plane;
}

/** Compares the light on both faces where both show skin. */
export function compareLight(
  target: RgbImage,
  source: SourceFace,
  parts: LightParts,
  faceWidth: number,
): LightField {
  const { direct, own } = parts;
  const { width, height } = direct.x;
  const skin = plainSkin(parts.zones);
  const weight = plane(width, height);
  const here = [plane(width, height), plane(width, height), plane(width, height)] as const;
  const there = [plane(width, height), plane(width, height), plane(width, height)] as const;
  const { coarse, visibleScale } = source;
  for (let i = 0; i < weight.data.length; i++) {
    const w =
      (skin.data[i] as number) *
      (1 - (parts.covered.data[i] as number)) *
      (FILLED_WEIGHT + (1 - FILLED_WEIGHT) * (parts.shown.data[i] as number));
    if (w <= 0 || !direct.covered.data[i] || !own.covered.data[i]) continue;
    weight.data[i] = w;
    const t = nearest(target, own.x.data[i] as number, own.y.data[i] as number);
    const s = nearest(
      coarse,
      (direct.x.data[i] as number) * visibleScale,
      (direct.y.data[i] as number) * visibleScale,
    );
    for (let c = 0; c < 3; c++) {
      (here[c] as Plane).data[i] = target.data[t + c] as number;
      (there[c] as Plane).data[i] = coarse.data[s + c] as number;
    }
  }
  const relief = reliefRatio(here, there, weight, faceWidth);
  return matchLight({ own: here, other: there, weight, edge: parts.edge, rim: parts.rim, faceWidth, relief });
}

/** Returns the ratio of the target's fine skin relief to the source's, each relative to its brightness. */
function reliefRatio(
  own: readonly Plane[],
  other: readonly Plane[],
  weight: Plane,
  faceWidth: number,
): number {
  const strength = (channels: readonly Plane[]): number => {
    const green = channels[1] as Plane;
    const smooth = blur(green, 0.04 * faceWidth);
    const known = blur(weight, 0.04 * faceWidth);
    let squares = 0;
    let level = 0;
    let total = 1e-6;
    for (let i = 0; i < weight.data.length; i++) {
      const w = weight.data[i] as number;
      if (w < 0.99 || (known.data[i] as number) < 0.9) continue;
      const mean = (smooth.data[i] as number) / (known.data[i] as number);
      squares += ((green.data[i] as number) - mean) ** 2;
      level += mean;
      total++;
    }
    return Math.sqrt(squares / total) / (level / total + 8);
  };
  return Math.min(1.25, Math.max(0.6, (strength(own) + 0.01) / (strength(other) + 0.01))) ** 0.8;
}

function nearest(image: RgbImage, x: number, y: number): number {
  const px = Math.min(image.width - 1, Math.max(0, Math.floor(x)));
  const py = Math.min(image.height - 1, Math.max(0, Math.floor(y)));
  return (py * image.width + px) * 3;
}
