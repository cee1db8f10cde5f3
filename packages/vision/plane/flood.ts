/**
 * Marks all pixels that are connected with the seeds over open pixels, each with its four neighbours.
 * @param seeds indices of pixels; they are marked even where they are not open
 * @returns 1 for each marked pixel, else 0
 */
export function flood(
  width: number,
  height: number,
  seeds: readonly number[],
  open: (index: number) => boolean,
): Uint8Array {
  const seen = new Uint8Array(width * height);
  const stack = [...seeds];
  for (const seed of stack) seen[seed] = 1;
  while (stack.length > 0) {
    const i = stack.pop() as number;
    const x = i % width;
    for (const next of [x > 0 ? i - 1 : -1, x < width - 1 ? i + 1 : -1, i - width, i + width]) {
      if (next < 0 || next >= seen.length || seen[next] || !open(next)) continue;
      seen[next] = 1;
      stack.push(next);
    }
  }
  return seen;
}
