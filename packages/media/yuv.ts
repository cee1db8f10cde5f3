import type { Picture } from '@semblance/engine-api/picture';
import { assumedMatrix } from './color.ts';
import type { ColorTags, VideoFrame } from './types.ts';

/** A part of a frame, in pixels. */
export interface Rect {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

type Planes = Pick<VideoFrame, 'width' | 'height' | 'data'>;
type Colors = Pick<ColorTags, 'range' | 'space'>;

/** Weights of red and blue in luma (ITU-T H.273, table 4). */
const WEIGHTS: Readonly<Record<string, readonly [number, number]>> = {
  bt709: [0.2126, 0.0722],
  smpte170m: [0.299, 0.114],
  bt470bg: [0.299, 0.114],
  fcc: [0.3, 0.11],
  smpte240m: [0.212, 0.087],
  bt2020nc: [0.2627, 0.0593],
  bt2020c: [0.2627, 0.0593],
};

/**
 * Returns the smallest part with even sides and corners, as 4:2:0 requires, that contains `rect` inside the frame.
 */
export function evenRect(rect: Rect, frame: Pick<VideoFrame, 'width' | 'height'>): Rect {
  const from = (start: number, most: number) => Math.min(Math.max(0, 2 * Math.floor(start / 2)), most);
  const to = (end: number, most: number) => Math.min(Math.max(0, 2 * Math.ceil(end / 2)), most);
  const x = from(rect.x, frame.width);
  const y = from(rect.y, frame.height);
  return {
    x,
    y,
    width: Math.max(0, to(rect.x + rect.width, frame.width) - x),
    height: Math.max(0, to(rect.y + rect.height, frame.height) - y),
  };
}

/**
 * Returns a part of a frame as 8-bit RGB. Each pair of chroma samples covers its four pixels without smoothing, so
 * {@link rgbToRegion} restores the original.
 * @param rect even sides and corners, inside the frame
 */
export function regionToRgb(
  frame: Planes,
  rect: Rect,
  color: Colors,
): Picture & { readonly data: Uint8Array } {
  checkRect(rect, frame);
  const { luma, redOfV, greenOfU, greenOfV, blueOfU } = toRgbTables(frame, color);
  const { width, data } = frame;
  const chromaWidth = width / 2;
  const uAt = width * frame.height;
  const vAt = uAt + uAt / 4;
  const out = new Uint8ClampedArray(rect.width * rect.height * 3);
  let to = 0;
  for (let y = rect.y; y < rect.y + rect.height; y++) {
    let from = y * width + rect.x;
    let chroma = (y >> 1) * chromaWidth + (rect.x >> 1);
    for (let x = 0; x < rect.width; x += 2, chroma++) {
      const u = data[uAt + chroma] as number;
      const v = data[vAt + chroma] as number;
      const red = redOfV[v] as number;
      const green = (greenOfU[u] as number) + (greenOfV[v] as number);
      const blue = blueOfU[u] as number;
      const left = luma[data[from++] as number] as number;
      const right = luma[data[from++] as number] as number;
      // The clamped array rounds and keeps values within 0–255.
      out[to++] = left + red;
      out[to++] = left + green;
      out[to++] = left + blue;
      out[to++] = right + red;
      out[to++] = right + green;
      out[to++] = right + blue;
    }
  }
  return { width: rect.width, height: rect.height, channels: 3, data: new Uint8Array(out.buffer) };
}

/**
 * Writes RGB into a part of a frame.
 * @param rgb interleaved, rect.width × rect.height × 3 samples, 0–255
 * @param mask replaced share of each pixel, 0–255, rect.width × rect.height; where it is 0, the frame keeps its
 * bytes.
 *   Default: all of it
 */
export function rgbToRegion(
  frame: Planes,
  rect: Rect,
  rgb: ArrayLike<number>,
  color: Colors,
  mask?: Uint8Array,
): void {
  checkRect(rect, frame);
  if (rgb.length !== rect.width * rect.height * 3) throw new RangeError('the pixels do not fill the region');
  if (mask && mask.length !== rect.width * rect.height)
    throw new RangeError('the mask does not fill the region');
  const { y0, yr, yg, yb, ur, ug, ub, vr, vg, vb } = fromRgbFactors(frame, color);
  const { width, data } = frame;
  const uAt = width * frame.height;
  const vAt = uAt + uAt / 4;
  for (let row = 0; row < rect.height; row += 2) {
    for (let column = 0; column < rect.width; column += 2) {
      let red = 0;
      let green = 0;
      let blue = 0;
      let cover = 0;
      const corner = row * rect.width + column;
      if (mask && isUnchanged(mask, corner, rect.width)) continue;
      for (let k = 0; k < 4; k++) {
        const pixel = corner + (k >> 1) * rect.width + (k & 1);
        const share = mask ? (mask[pixel] as number) : 255;
        if (share === 0) continue;
        const r = rgb[pixel * 3] as number;
        const g = rgb[pixel * 3 + 1] as number;
        const b = rgb[pixel * 3 + 2] as number;
        const at = (rect.y + row + (k >> 1)) * width + rect.x + column + (k & 1);
        const luma = y0 + yr * r + yg * g + yb * b;
        data[at] = toByte(share === 255 ? luma : mix(data[at] as number, luma, share));
        red += share * r;
        green += share * g;
        blue += share * b;
        cover += share;
      }
      if (cover === 0) continue;
      red /= cover;
      green /= cover;
      blue /= cover;
      const chroma = ((rect.y + row) >> 1) * (width / 2) + ((rect.x + column) >> 1);
      const u = 128 + ur * red + ug * green + ub * blue;
      const v = 128 + vr * red + vg * green + vb * blue;
      const share = cover / 4;
      data[uAt + chroma] = toByte(share === 255 ? u : mix(data[uAt + chroma] as number, u, share));
      data[vAt + chroma] = toByte(share === 255 ? v : mix(data[vAt + chroma] as number, v, share));
    }
  }
}

/** Returns whether a mask is 0 in the four pixels from a corner on. */
function isUnchanged(mask: Uint8Array, corner: number, width: number): boolean {
  return (
    mask[corner] === 0 &&
    mask[corner + 1] === 0 &&
    mask[corner + width] === 0 &&
    mask[corner + width + 1] === 0
  );
}

const mix = (old: number, fresh: number, share: number) => old + ((fresh - old) * share) / 255;

const toByte = (value: number) => (value <= 0 ? 0 : value >= 255 ? 255 : (value + 0.5) | 0);

function checkRect(rect: Rect, frame: Planes): void {
  const { x, y, width, height } = rect;
  if ([x, y, width, height].some((side) => side < 0 || side % 2 !== 0)) {
    throw new RangeError(`a region with odd or negative sides: ${x},${y} ${width}×${height}`);
  }
  if (x + width > frame.width || y + height > frame.height)
    throw new RangeError('a region outside the frame');
}

interface ToRgb {
  readonly luma: Float64Array;
  readonly redOfV: Float64Array;
  readonly greenOfU: Float64Array;
  readonly greenOfV: Float64Array;
  readonly blueOfU: Float64Array;
}

const tables = new Map<string, ToRgb>();

function facts(frame: Pick<VideoFrame, 'width' | 'height'>, { range, space }: Colors) {
  const matrix = WEIGHTS[space] ? space : assumedMatrix(frame);
  const [kr, kb] = WEIGHTS[matrix] as readonly [number, number];
  const full = range === 'pc';
  return {
    matrix,
    kr,
    kb,
    kg: 1 - kr - kb,
    y0: full ? 0 : 16,
    ySpan: full ? 255 : 219,
    cSpan: full ? 255 : 224,
  };
}

function toRgbTables(frame: Planes, color: Colors): ToRgb {
  const { matrix, kr, kb, kg, y0, ySpan, cSpan } = facts(frame, color);
  const key = `${matrix} ${color.range}`;
  let made = tables.get(key);
  if (!made) {
    const table = (of: (value: number) => number) =>
      Float64Array.from({ length: 256 }, (_, value) => of(value));
    const perChroma = 255 / cSpan;
    made = {
      luma: table((y) => ((y - y0) * 255) / ySpan),
      redOfV: table((v) => 2 * (1 - kr) * perChroma * (v - 128)),
      greenOfU: table((u) => ((-2 * kb * (1 - kb)) / kg) * perChroma * (u - 128)),
      greenOfV: table((v) => ((-2 * kr * (1 - kr)) / kg) * perChroma * (v - 128)),
      blueOfU: table((u) => 2 * (1 - kb) * perChroma * (u - 128)),
    };
    tables.set(key, made);
  }
  return made;
}

/** Returns the factors of luma and both chroma values: y0 + yr·R + yg·G + yb·B, and 128 + ur·R + … for U, V. */
export function fromRgbFactors(frame: Pick<VideoFrame, 'width' | 'height'>, color: Colors) {
  const { kr, kb, kg, y0, ySpan, cSpan } = facts(frame, color);
  const yScale = ySpan / 255;
  const uScale = cSpan / 255 / (2 * (1 - kb));
  const vScale = cSpan / 255 / (2 * (1 - kr));
  return {
    y0,
    yr: kr * yScale,
    yg: kg * yScale,
    yb: kb * yScale,
    ur: -kr * uScale,
    ug: -kg * uScale,
    ub: (1 - kb) * uScale,
    vr: (1 - kr) * vScale,
    vg: -kg * vScale,
    vb: -kb * vScale,
  };
}
