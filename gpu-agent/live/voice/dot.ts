/**
 * Sum of products of two runs of `count` samples, a multiple of four. Four sums at once: one alone would wait for each
 * addition to end before the next begins.
 */
export function dot(a: Float64Array, from: number, b: Float64Array, at: number, count: number): number {
  let s0 = 0;
  let s1 = 0;
  let s2 = 0;
  let s3 = 0;
  for (let i = 0; i < count; i += 4) {
    s0 += (a[from + i] as number) * (b[at + i] as number);
    s1 += (a[from + i + 1] as number) * (b[at + i + 1] as number);
    s2 += (a[from + i + 2] as number) * (b[at + i + 2] as number);
    s3 += (a[from + i + 3] as number) * (b[at + i + 3] as number);
  }
  return s0 + s1 + (s2 + s3);
}
