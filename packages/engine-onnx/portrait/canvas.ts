import type { Picture } from '@semblance/engine-api/picture';
import type { ColorTags, Size } from '@semblance/media/types';
import { evenRect, type Rect, rgbToRegion } from '@semblance/media/yuv';
import { type CropTransform, type RgbImage, toCrop } from '@semblance/vision/picture';
import { sample } from '@semblance/vision/plane/plane';
import { boxMask } from '../vision/face-mask.ts';
import type { PasteMask } from '../vision/paste.ts';

/** Width of the edge of a crop that stays as in the still, and of the fade inside it, as shares of its side. */
const MARGIN = 0.02;
const FEATHER = 0.1;
const MAX_TAPS = 8;

/** A part of a still with a drawn crop in it. */
export interface Pasted {
  readonly part: Picture;
  /** Position of the crop in the part. */
  readonly crop: CropTransform;
}

/** A still as video frames in which only one crop changes; all other pixels keep their bytes. */
export class StillCanvas {
  readonly #size: Size;
  readonly #color: ColorTags;
  readonly #rest: Uint8Array;
  readonly #rect: Rect;
  readonly #part: Picture;
  readonly #crop: CropTransform;
  readonly #cropSize: number;
  readonly #places: Places;

  /**
   * @param still red, green and blue of 8 bits; both sides even
   * @param crop of `cropSize`² pixels
   */
  constructor(still: Picture, crop: CropTransform, cropSize: number, color: ColorTags) {
    const { width, height, data } = still;
    this.#size = { width, height };
    this.#color = color;
    this.#cropSize = cropSize;
    this.#rest = new Uint8Array((width * height * 3) / 2);
    rgbToRegion({ width, height, data: this.#rest }, { x: 0, y: 0, width, height }, data, color);
    const mask = boxMask(crop, cropSize, { margin: MARGIN, feather: FEATHER });
    const { originX, originY, scale, share } = mask;
    const box = { x: originX, y: originY, width: share.width * scale, height: share.height * scale };
    this.#rect = evenRect(box, still);
    const { x, y } = this.#rect;
    this.#part = partOf(still, this.#rect);
    this.#crop = { ...crop, originX: crop.originX - x, originY: crop.originY - y };
    const shifted = { ...mask, originX: originX - x, originY: originY - y };
    this.#places = placesOf(this.#part, this.#crop, cropSize, shifted);
  }

  /** Mixes a drawn crop into its part of the still. */
  paste({ data: drawn, width, height }: RgbImage): Pasted {
    if (width !== this.#cropSize || height !== width) throw new RangeError('the crop has another size');
    const { pixels, shares, taps, at, right, down } = this.#places;
    const data = this.#part.data.slice();
    const stride = width * 3;
    for (let i = 0, s = 0; i < pixels.length; i++) {
      let red = 0;
      let green = 0;
      let blue = 0;
      for (const end = s + taps; s < end; s++) {
        const k = at[s] as number;
        const fx = right[s] as number;
        const fy = down[s] as number;
        const w11 = fx * fy;
        const w01 = fx - w11;
        const w10 = fy - w11;
        const w00 = 1 - fx - w10;
        const l = k + stride;
        red +=
          w00 * (drawn[k] as number) +
          w01 * (drawn[k + 3] as number) +
          w10 * (drawn[l] as number) +
          w11 * (drawn[l + 3] as number);
        green +=
          w00 * (drawn[k + 1] as number) +
          w01 * (drawn[k + 4] as number) +
          w10 * (drawn[l + 1] as number) +
          w11 * (drawn[l + 4] as number);
        blue +=
          w00 * (drawn[k + 2] as number) +
          w01 * (drawn[k + 5] as number) +
          w10 * (drawn[l + 2] as number) +
          w11 * (drawn[l + 5] as number);
      }
      const o = (pixels[i] as number) * 3;
      const fresh = (shares[i] as number) / taps;
      const kept = 1 - (shares[i] as number);
      data[o] = (data[o] as number) * kept + red * fresh + 0.5;
      data[o + 1] = (data[o + 1] as number) * kept + green * fresh + 0.5;
      data[o + 2] = (data[o + 2] as number) * kept + blue * fresh + 0.5;
    }
    return { part: { ...this.#part, data }, crop: this.#crop };
  }

  /** Returns the whole frame with a changed part. */
  frame({ data }: Picture): Uint8Array {
    const frame = this.#rest.slice();
    const { touched } = this.#places;
    rgbToRegion({ ...this.#size, data: frame }, this.#rect, data, this.#color, touched);
    return frame;
  }
}

/** Where each changing pixel is read in the crop. All frames use the same places, so they are computed once. */
interface Places {
  /** Indices of the pixels, and the replaced share of each. */
  readonly pixels: Uint32Array;
  readonly shares: Float32Array;
  /** 255 for each of these pixels, 0 for all others. */
  readonly touched: Uint8Array;
  /** Number of crop places per pixel that are averaged; more than one where the crop is finer than the still. */
  readonly taps: number;
  /** For each place: the sample on its upper left, and the distances from that sample to the right and down, 0–1. */
  readonly at: Uint32Array;
  readonly right: Float32Array;
  readonly down: Float32Array;
}

function placesOf(part: Picture, crop: CropTransform, cropSize: number, mask: PasteMask): Places {
  const { width, height } = part;
  const { originX, originY, scale, share } = mask;
  const shareAt = (x: number, y: number): number =>
    sample(share, (x + 0.5 - originX) / scale, (y + 0.5 - originY) / scale);
  const field = Float32Array.from({ length: width * height }, (_, i) =>
    shareAt(i % width, Math.floor(i / width)),
  );
  const touched = Uint8Array.from(field, (value) => (value > 0 ? 255 : 0));
  const count = touched.reduce((sum, value) => sum + (value > 0 ? 1 : 0), 0);
  const across = Math.min(MAX_TAPS, Math.max(1, Math.round(1 / crop.scale)));
  const taps = across * across;
  const places = {
    pixels: new Uint32Array(count),
    shares: new Float32Array(count),
    touched,
    taps,
    at: new Uint32Array(count * taps),
    right: new Float32Array(count * taps),
    down: new Float32Array(count * taps),
  };
  const inside = (value: number): number => Math.min(cropSize - 1, Math.max(0, value - 0.5));
  let [i, s] = [0, 0];
  for (let pixel = 0; pixel < field.length; pixel++) {
    if (touched[pixel] === 0) continue;
    places.pixels[i] = pixel;
    places.shares[i++] = field[pixel] as number;
    const [x, y] = [pixel % width, Math.floor(pixel / width)];
    for (let t = 0; t < taps; t++, s++) {
      const place = toCrop(
        crop,
        x + ((t % across) + 0.5) / across,
        y + (Math.floor(t / across) + 0.5) / across,
      );
      const [u, v] = [inside(place.x), inside(place.y)];
      const [column, row] = [Math.min(cropSize - 2, Math.floor(u)), Math.min(cropSize - 2, Math.floor(v))];
      places.at[s] = (row * cropSize + column) * 3;
      places.right[s] = u - column;
      places.down[s] = v - row;
    }
  }
  return places;
}

function partOf({ width, data }: Picture, rect: Rect): Picture {
  const part = new Uint8Array(rect.width * rect.height * 3);
  for (let y = 0; y < rect.height; y++) {
    const from = ((rect.y + y) * width + rect.x) * 3;
    part.set(data.subarray(from, from + rect.width * 3), y * rect.width * 3);
  }
  return { width: rect.width, height: rect.height, channels: 3, data: part };
}
