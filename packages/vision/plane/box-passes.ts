/**
 * Writes means over 2 × `radius` + 1 values along both axes; the edge repeats. Several rows are summed at a time, and
 * the column pass handles all columns row by row: in one row or column at a time each sum would wait for the last, and
 * columns would read distant addresses.
 * @param from may be `to`
 */
export function boxPasses(
  to: Float32Array,
  width: number,
  height: number,
  radius: number,
  from: Float32Array = to,
): void {
  if (between.length < from.length) between = new Float32Array(from.length);
  let y = 0;
  for (; y + 4 <= height; y += 4) alongFourRows(from, between, y * width, width, radius);
  for (; y < height; y++) alongRow(from, between, y * width, width, radius);
  alongColumns(between, to, width, height, radius);
}

/** Reused, because new memory costs more than the passes. */
let between = new Float32Array(0);
let sums = new Float64Array(0);

/** @param start index of the first value of the row */
function alongRow(from: Float32Array, to: Float32Array, start: number, width: number, radius: number): void {
  const scale = 1 / (2 * radius + 1);
  const last = width - 1;
  let sum = 0;
  for (let i = -radius; i < radius; i++) sum += from[start + (i < 0 ? 0 : i < last ? i : last)] as number;
  for (let i = 0; i < width; i++) {
    sum += from[start + (i + radius < last ? i + radius : last)] as number;
    to[start + i] = sum * scale;
    sum -= from[start + (i > radius ? i - radius : 0)] as number;
  }
}

/** Does the same for the row at `a` and the three after it. */
function alongFourRows(from: Float32Array, to: Float32Array, a: number, width: number, radius: number): void {
  const scale = 1 / (2 * radius + 1);
  const last = width - 1;
  const b = a + width;
  const c = b + width;
  const d = c + width;
  let [sumA, sumB, sumC, sumD] = [0, 0, 0, 0];
  for (let i = -radius; i < radius; i++) {
    const added = i < 0 ? 0 : i < last ? i : last;
    sumA += from[a + added] as number;
    sumB += from[b + added] as number;
    sumC += from[c + added] as number;
    sumD += from[d + added] as number;
  }
  for (let i = 0; i < width; i++) {
    const added = i + radius < last ? i + radius : last;
    const dropped = i > radius ? i - radius : 0;
    sumA += from[a + added] as number;
    to[a + i] = sumA * scale;
    sumA -= from[a + dropped] as number;
    sumB += from[b + added] as number;
    to[b + i] = sumB * scale;
    sumB -= from[b + dropped] as number;
    sumC += from[c + added] as number;
    to[c + i] = sumC * scale;
    sumC -= from[c + dropped] as number;
    sumD += from[d + added] as number;
    to[d + i] = sumD * scale;
    sumD -= from[d + dropped] as number;
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
  if (sums.length < width) sums = new Float64Array(width);
  else sums.fill(0, 0, width);
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
