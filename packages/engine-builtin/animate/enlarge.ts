import type { Picture } from '@semblance/engine-api/picture';
import type { CropTransform, RgbImage } from '@semblance/vision/picture';
import { type Plane, smoothstep } from '@semblance/vision/plane/plane';
import { type Copies, type Corners, copied } from './copies.ts';
import { roughness } from './grain.ts';
import type { ClipBox } from './triangle-spans.ts';

/** What is known of each pixel of a small picture. */
interface Fields {
  /** Red, green and blue of the blurred background. */
  readonly smooth: RgbImage;
  readonly copies: Copies | undefined;
  /** How far a pixel is hidden. */
  readonly hidden: Plane;
  readonly alpha: Plane;
}

/** Returns background and opacity over a box of the picture, from those of a small picture of it. */
export function enlarge(
  picture: Picture,
  box: ClipBox,
  { scale }: CropTransform,
  { smooth, copies, hidden, alpha }: Fields,
): { background: Uint8Array; alpha: Uint8Array } {
  const width = box.right - box.left;
  const height = box.bottom - box.top;
  const background = new Uint8ClampedArray(width * height * 3);
  const opacity = new Uint8ClampedArray(width * height);
  const grain = grainOf(picture, box, (x, y) => {
    return (hidden.data[nearest(hidden, x / scale, y / scale)] as number) < 0.01;
  });
  const corners = { at: new Int32Array(4), weights: new Float64Array(4) };
  const made = new Float64Array(3);
  const columns = stepsOf(width, scale, hidden.width);
  const rows = stepsOf(height, scale, hidden.height);
  const opaque = new Row(alpha.data, alpha.width);
  const covered = new Row(hidden.data, hidden.width);
  const sureness = new Row(copies?.share.data, hidden.width);
  const blurred = new Row(smooth.data, hidden.width, 3);
  for (let y = 0; y < height; y++) {
    const [top, bottom, v] = [rows.from[y] as number, rows.to[y] as number, rows.share[y] as number];
    for (const row of [opaque, covered, sureness, blurred]) row.moveTo(top, bottom, v);
    for (let x = 0; x < width; x++) {
      const left = columns.from[x] as number;
      const right = columns.to[x] as number;
      const u = columns.share[x] as number;
      const i = y * width + x;
      opacity[i] = 255 * opaque.at(left, right, u);
      const p = ((box.top + y) * picture.width + box.left + x) * picture.channels;
      const share = smoothstep(0, 0.6, covered.at(left, right, u));
      if (share === 0) {
        for (let c = 0; c < 3; c++) background[i * 3 + c] = picture.data[p + c] as number;
        continue;
      }
      let sure = copies ? sureness.at(left, right, u) : 0;
      if (copies && sure > 0) {
        setCorners(corners, hidden.width, { left, right, top, bottom, u, v });
        if (!copied(picture, box.left + x, box.top + y, corners, copies, made)) sure = 0;
      }
      const noise = sure < 1 ? grain * roughness(x, y) : 0;
      for (let c = 0; c < 3; c++) {
        let content = made[c] as number;
        if (sure < 1) content = content * sure + (blurred.at(left, right, u, c) + noise) * (1 - sure);
        const seen = picture.data[p + c] as number;
        background[i * 3 + c] = seen + (content - seen) * share;
      }
    }
  }
  return {
    background: new Uint8Array(background.buffer),
    alpha: new Uint8Array(opacity.buffer),
  };
}

/** Places along one side of a small picture for each pixel of a large one: two neighbours, and the second's share. */
function stepsOf(
  length: number,
  scale: number,
  small: number,
): { readonly from: Int32Array; readonly to: Int32Array; readonly share: Float64Array } {
  const from = new Int32Array(length);
  const to = new Int32Array(length);
  const share = new Float64Array(length);
  for (let i = 0; i < length; i++) {
    const at = Math.min(small - 1, Math.max(0, (i + 0.5) / scale - 0.5));
    from[i] = Math.floor(at);
    to[i] = Math.min(small - 1, Math.floor(at) + 1);
    share[i] = at - Math.floor(at);
  }
  return { from, to, share };
}

interface Cell {
  readonly left: number;
  readonly right: number;
  readonly top: number;
  readonly bottom: number;
  readonly u: number;
  readonly v: number;
}

function setCorners({ at, weights }: Corners, width: number, cell: Cell): void {
  const { left, right, top, bottom, u, v } = cell;
  at[0] = top * width + left;
  at[1] = top * width + right;
  at[2] = bottom * width + left;
  at[3] = bottom * width + right;
  weights[0] = (1 - u) * (1 - v);
  weights[1] = u * (1 - v);
  weights[2] = (1 - u) * v;
  weights[3] = u * v;
}

/** A row interpolated between two rows of a small picture. */
class Row {
  readonly #data: Float32Array | undefined;
  readonly #values: Float32Array;
  readonly #fields: number;

  constructor(data: Float32Array | undefined, width: number, fields = 1) {
    this.#data = data;
    this.#fields = fields;
    this.#values = new Float32Array(width * fields);
  }

  moveTo(upper: number, lower: number, share: number): void {
    const values = this.#values;
    const data = this.#data;
    if (!data) return;
    const [a, b] = [upper * values.length, lower * values.length];
    for (let i = 0; i < values.length; i++) {
      const from = data[a + i] as number;
      values[i] = from + ((data[b + i] as number) - from) * share;
    }
  }

  at(left: number, right: number, share: number, field = 0): number {
    const from = this.#values[left * this.#fields + field] as number;
    return from + ((this.#values[right * this.#fields + field] as number) - from) * share;
  }
}

function nearest({ width, height }: Plane, x: number, y: number): number {
  return Math.min(height - 1, Math.floor(y)) * width + Math.min(width - 1, Math.floor(x));
}

/**
 * Returns the typical difference of a background pixel from its neighbours, in levels; made-up background gets the
 * same grain.
 */
function grainOf(picture: Picture, box: ClipBox, isSeen: (x: number, y: number) => boolean): number {
  const { width, channels, data } = picture;
  const differences: number[] = [];
  const step = Math.max(3, Math.round((box.right - box.left) / 80));
  for (let y = box.top + 1; y < box.bottom - 1; y += step) {
    for (let x = box.left + 1; x < box.right - 1; x += step) {
      if (!isSeen(x - box.left, y - box.top)) continue;
      const at = (dx: number, dy: number): number =>
        data[((y + dy) * width + x + dx) * channels + 1] as number;
      differences.push(Math.abs(at(0, 0) - (at(-1, 0) + at(1, 0) + at(0, -1) + at(0, 1)) / 4));
    }
  }
  // The median, because edges are not grain.
  differences.sort((a, b) => a - b);
  return 1.3 * (differences[differences.length >> 1] ?? 0);
}
