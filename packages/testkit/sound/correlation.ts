/** Returns the Pearson correlation of two series, over the length of the shorter. */
export function correlation(a: readonly number[], b: readonly number[]): number {
  const n = Math.min(a.length, b.length);
  let [sa, sb, saa, sbb, sab] = [0, 0, 0, 0, 0];
  for (let i = 0; i < n; i++) {
    const [x, y] = [a[i] as number, b[i] as number];
    sa += x;
    sb += y;
    saa += x * x;
    sbb += y * y;
    sab += x * y;
  }
  return (n * sab - sa * sb) / Math.sqrt(Math.max(1e-12, (n * saa - sa * sa) * (n * sbb - sb * sb)));
}

/** Returns the correlation when `a` is `lag` steps behind `b`. */
export function shifted(a: readonly number[], b: readonly number[], lag: number): number {
  return lag >= 0 ? correlation(a.slice(lag), b.slice(0, b.length - lag)) : shifted(b, a, -lag);
}
