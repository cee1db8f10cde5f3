import { cubicWeights } from '@semblance/vision/plane/cubic';

/** Samples of a picture, or of one plane of it. */
export interface Layer {
  readonly data: Uint8Array | Uint16Array;
  /** Index of its first sample. */
  readonly start: number;
  readonly width: number;
  readonly height: number;
  /** Samples side by side in each place. */
  readonly channels: number;
  /** Pixels of the picture per place. */
  readonly pixels: number;
  /** Whether samples of a single channel are read between four others, which is fast, not sixteen, which stays sharp. */
  readonly fast?: boolean;
}

/** Moves on a grid over a part of a picture. */
export interface Moves {
  readonly left: number;
  readonly top: number;
  readonly step: number;
  readonly columns: number;
  readonly rows: number;
  /** From where each node takes its pixel, x and y relative to it, in pixels. */
  readonly from: Float32Array;
}

/** Moves below it, in samples, change nothing that is seen. */
const LEAST_STEP = 0.02;

const across = new Float32Array(4);
const along = new Float32Array(4);

/** Fetches each sample from its place, in place. */
export function warpLayer(layer: Layer, { left, top, step, columns, rows, from }: Moves): void {
  const { data, start, width, height, channels, pixels, fast } = layer;
  const row = width * channels;
  const startX = Math.max(0, Math.floor(left / pixels));
  const startY = Math.max(0, Math.floor(top / pixels));
  const endX = Math.min(width, Math.ceil((left + (columns - 1) * step) / pixels));
  const endY = Math.min(height, Math.ceil((top + (rows - 1) * step) / pixels));
  const reach = Math.ceil(from.reduce((far, move) => Math.max(far, Math.abs(move)), 0) / pixels) + 3;
  const firstRow = Math.max(0, startY - reach);
  const lastRow = Math.min(height - 1, endY + reach);
  const before = {
    data: data.slice(start + firstRow * row, start + (lastRow + 1) * row),
    width,
    height: lastRow + 1 - firstRow,
    channels,
  };
  const line = new Float32Array(columns * 2);
  const draw = fast ? linearRun : cubicRun;
  for (let y = startY; y < endY; y++) {
    const gy = Math.min(rows - 1, Math.max(0, ((y + 0.5) * pixels - top) / step));
    const j = Math.min(rows - 2, gy | 0);
    const v = gy - j;
    const upper = j * columns * 2;
    const lower = upper + columns * 2;
    for (let i = 0; i < line.length; i++)
      line[i] = ((from[upper + i] as number) * (1 - v) + (from[lower + i] as number) * v) / pixels;
    // Between two nodes the move changes evenly.
    for (let i = 0; i < columns - 1; i++) {
      const [leftX, leftY] = [line[i * 2] as number, line[i * 2 + 1] as number];
      const [rightX, rightY] = [line[i * 2 + 2] as number, line[i * 2 + 3] as number];
      if (Math.max(Math.abs(leftX) + Math.abs(leftY), Math.abs(rightX) + Math.abs(rightY)) < LEAST_STEP)
        continue;
      const begin = Math.max(startX, Math.ceil((left + i * step) / pixels - 0.5));
      const end = Math.min(endX, Math.ceil((left + (i + 1) * step) / pixels - 0.5));
      const by = pixels / step;
      const u = ((begin + 0.5) * pixels - left) / step - i;
      const [stepX, stepY] = [(rightX - leftX) * by, (rightY - leftY) * by];
      draw(before, data, {
        at: start + y * row + begin * channels,
        count: end - begin,
        x: begin + leftX + (rightX - leftX) * u,
        y: y - firstRow + leftY + (rightY - leftY) * u,
        stepX: 1 + stepX,
        stepY,
      });
    }
  }
}

/** Rows of a layer. */
type Rows = Pick<Layer, 'data' | 'width' | 'height' | 'channels'>;

/** Places in a row, one after the other, and where the first one takes its sample from; 0 is the middle of a sample. */
interface Run {
  readonly at: number;
  readonly count: number;
  readonly x: number;
  readonly y: number;
  readonly stepX: number;
  readonly stepY: number;
}

/** Writes values between four samples of a single channel. */
function linearRun({ data, width, height }: Rows, out: Layer['data'], run: Run): void {
  let { at, x, y } = run;
  const { stepX, stepY } = run;
  const [mostX, mostY] = [width - 1, height - 1];
  for (const end = at + run.count; at < end; at++, x += stepX, y += stepY) {
    const px = x < 0 ? 0 : x > mostX ? mostX : x;
    const py = y < 0 ? 0 : y > mostY ? mostY : y;
    const x0 = px | 0;
    const y0 = py | 0;
    const u = px - x0;
    const i = y0 * width + x0;
    const right = x0 < mostX ? i + 1 : i;
    const down = y0 < mostY ? width : 0;
    const upper = (data[i] as number) * (1 - u) + (data[right] as number) * u;
    const lower = (data[i + down] as number) * (1 - u) + (data[right + down] as number) * u;
    out[at] = upper + (lower - upper) * (py - y0) + 0.5;
  }
}

/** Writes values between sixteen samples. */
function cubicRun(rows: Rows, out: Layer['data'], { at, count, x, y, stepX, stepY }: Run): void {
  for (let k = 0; k < count; k++)
    cubicSample(rows, x + k * stepX, y + k * stepY, out, at + k * rows.channels);
}

/**
 * Writes the values between the samples of some rows (Catmull and Rom 1974).
 * @param x column, 0 in the middle of the first sample; y alike
 */
function cubicSample(
  { data, width, height, channels }: Rows,
  x: number,
  y: number,
  out: Layer['data'],
  at: number,
): void {
  const px = x < 0 ? 0 : x > width - 1 ? width - 1 : x;
  const py = y < 0 ? 0 : y > height - 1 ? height - 1 : y;
  const x0 = px | 0;
  const y0 = py | 0;
  cubicWeights(px - x0, across);
  cubicWeights(py - y0, along);
  const [a, b, c, d] = [across[0] as number, across[1] as number, across[2] as number, across[3] as number];
  const i1 = x0 * channels;
  const i0 = x0 > 0 ? i1 - channels : i1;
  const i2 = x0 + 1 < width ? i1 + channels : i1;
  const i3 = x0 + 2 < width ? i2 + channels : i2;
  const most = data instanceof Uint16Array ? 65_535 : 255;
  for (let channel = 0; channel < channels; channel++) {
    let sum = 0;
    for (let k = 0; k < 4; k++) {
      const line = y0 + k - 1;
      const from = (line < 0 ? 0 : line < height ? line : height - 1) * width * channels + channel;
      sum +=
        (along[k] as number) *
        (a * (data[from + i0] as number) +
          b * (data[from + i1] as number) +
          c * (data[from + i2] as number) +
          d * (data[from + i3] as number));
    }
    out[at + channel] = sum <= 0 ? 0 : sum >= most ? most : sum + 0.5;
  }
}
