import { type RgbImage, sampleRgb } from '@semblance/vision/picture';
import { type Plane, plane } from '@semblance/vision/plane/plane';
import type { WarpMap } from '@semblance/vision/plane/warp-map';
import { type Channels, LIGHT, type LightField, readLight } from './light.ts';
import { KIND, relight } from './relight.ts';
import type { SourceFace } from './source-face.ts';
import { applyTone, type Tone } from './tone.ts';

/** How the source is lit, all on the work grid. */
export interface Lighting {
  /** For each pixel, the place in the source's patch that belongs there. */
  readonly direct: WarpMap;
  readonly light: LightField;
  readonly tone: Tone | undefined;
  /** Kinds of each pixel; see {@link KIND}. */
  readonly eyes: Plane;
  readonly lips: Plane;
  readonly dark: Plane;
}

function channels(width: number, height: number): Channels {
  return [plane(width, height), plane(width, height), plane(width, height)];
}

function put(out: Channels, i: number, rgb: Float32Array): void {
  for (let c = 0; c < 3; c++) (out[c] as Plane).data[i] = rgb[c] as number;
}

/** Returns the target after its features have moved. */
export function ownPixels(target: RgbImage, { x, y, covered }: WarpMap): Channels {
  const { width, height } = x;
  const out = channels(width, height);
  const rgb = new Float32Array(3);
  for (let i = 0; i < width * height; i++) {
    const known = covered.data[i];
    const fromX = known ? (x.data[i] as number) : (i % width) + 0.5;
    const fromY = known ? (y.data[i] as number) : Math.floor(i / width) + 0.5;
    sampleRgb(target, fromX, fromY, rgb);
    put(out, i, rgb);
  }
  return out;
}

/** Returns the source in the target's light; where it has no pixels, the target. */
export function litSource(source: SourceFace, parts: Lighting, own: Channels): Channels {
  const { direct, light, tone } = parts;
  const { width, height } = direct.x;
  const out = channels(width, height);
  const rgb = new Float32Array(3);
  const fields = new Float32Array(LIGHT.count);
  const kind = new Float32Array(KIND.count);
  const { coarse, visibleScale: scale } = source;
  for (let i = 0; i < width * height; i++) {
    if (!direct.covered.data[i]) {
      for (let c = 0; c < 3; c++) rgb[c] = (own[c] as Plane).data[i] as number;
    } else {
      sampleRgb(coarse, (direct.x.data[i] as number) * scale, (direct.y.data[i] as number) * scale, rgb);
      kind[KIND.eye] = parts.eyes.data[i] as number;
      kind[KIND.lips] = parts.lips.data[i] as number;
      kind[KIND.feature] = parts.dark.data[i] as number;
      readLight(light, (i % width) + 0.5, Math.floor(i / width) + 0.5, fields);
      relight(fields, kind, source.grey, rgb);
      if (tone) applyTone(tone, rgb);
    }
    put(out, i, rgb);
  }
  return out;
}
