import { floats } from './scratch.ts';

/**
 * Replaces values by means over 2 × `radius` + 1 values along both axes, in place; the edge repeats. The column
 * pass handles all columns row by row: one column at a time would read distant addresses, and each sum would wait
 * for the last.
 */
export function boxPasses(data: Float32Array, width: number, height: number, radius: number): void {
  const between = floats(data.length);
  alongRows(data, between, width, height, radius);
  alongColumns(between, data, width, height, radius);
}

function alongRows(
  from: Float32Array,
  to: Float32Array,
  width: number,
  height: number,
  radius: number,
): void {
  const scale = 1 / (2 * radius + 1);
  // The row has its ends repeated, so that no step needs a bounds check.
  const line = floats(width + 2 * radius);
  for (let y = 0; y < height; y++) {
    const start = y * width;
    line.fill(from[start] as number, 0, radius);
    for (let i = 0; i < width; i++) line[radius + i] = from[start + i] as number;
    line.fill(from[start + width - 1] as number, radius + width);
    let sum = 0;
    for (let i = 0; i < 2 * radius; i++) sum += line[i] as number;
    for (let i = 0; i < width; i++) {
      sum += line[i + 2 * radius] as number;
      to[start + i] = sum * scale;
      sum -= line[i] as number;
    }
  }
}

function alongColumns(
  from: Float32Array,
  to: Float32Array,
  width: number,
  height: number,
  radius: number,
): void {
  const scale = 1 / (2 * radius + 1);
  const sums = new Float64Array(width);
  const startOf = (y: number): number => Math.min(height - 1, Math.max(0, y)) * width;
  for (let y = -radius; y < radius; y++) {
    const start = startOf(y);
    for (let x = 0; x < width; x++) sums[x] = (sums[x] as number) + (from[start + x] as number);
  }
  for (let y = 0; y < height; y++) {
    const added = startOf(y + radius);
    const dropped = startOf(y - radius);
    const start = y * width;
    for (let x = 0; x < width; x++) {
      const sum = (sums[x] as number) + (from[added + x] as number);
      to[start + x] = sum * scale;
      sums[x] = sum - (from[dropped + x] as number);
    }
  }
}
