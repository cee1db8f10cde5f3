import type { BytePlane } from './raster.ts';

/**
 * Returns the grain of a plane around some places: the typical difference of a pixel from its neighbours, in levels.
 * @param places x and y in pixels
 * @param radius half the side of the square that is looked at around each, in pixels
 */
export function grainAround(
  { width, height, data }: BytePlane,
  places: readonly (readonly [number, number])[],
  radius: number,
): number {
  const differences: number[] = [];
  for (const [x, y] of places) {
    const [left, right] = [Math.max(1, Math.round(x - radius)), Math.min(width - 2, Math.round(x + radius))];
    for (let row = Math.max(1, Math.round(y - radius)); row <= Math.min(height - 2, y + radius); row++) {
      for (let i = row * width + left; i <= row * width + right; i++) {
        const around =
          (data[i - 1] as number) +
          (data[i + 1] as number) +
          (data[i - width] as number) +
          (data[i + width] as number);
        differences.push(Math.abs((data[i] as number) - around / 4));
      }
    }
  }
  // The median, because pores and edges are not grain.
  differences.sort((a, b) => a - b);
  return 1.3 * (differences[differences.length >> 1] ?? 0);
}

/** Returns noise that is the same in every frame and run, about normal with deviation 1. */
export function roughness(x: number, y: number): number {
  let sum = 0;
  let h = (x * 374_761_393 + y * 668_265_263) | 0;
  for (let k = 0; k < 3; k++) {
    h = Math.imul(h ^ (h >>> 13), 1_274_126_177);
    sum += ((h >>> 8) & 0xffff) / 0xffff - 0.5;
  }
  return sum * 2;
}
