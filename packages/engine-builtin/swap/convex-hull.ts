/** Returns the convex hull of some mesh points, x and y in turn (monotone chain, Andrew 1979). */
export function convexHull(points: Float32Array, group: readonly number[]): number[] {
  const sorted = group
    .map((index) => [points[index * 2] as number, points[index * 2 + 1] as number] as const)
    .toSorted((a, b) => a[0] - b[0] || a[1] - b[1]);
  const half = (list: readonly (readonly [number, number])[]): (readonly [number, number])[] => {
    const chain: (readonly [number, number])[] = [];
    for (const p of list) {
      for (let a = chain.at(-2), b = chain.at(-1); a && b; a = chain.at(-2), b = chain.at(-1)) {
        if ((b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0]) > 0) break;
        chain.pop();
      }
      chain.push(p);
    }
    return chain.slice(0, -1);
  };
  return [...half(sorted), ...half(sorted.toReversed())].flat();
}
