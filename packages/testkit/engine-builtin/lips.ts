import { LIP_COLUMNS, LIP_POINTS, lipColumn } from '@semblance/engine-builtin/internal/animate/lips';

/** Returns closed lips of a width, in IOD, whose corners are higher than their middle. */
export function drawnLips(width: number, lift: number): Float32Array {
  const lips = new Float32Array(LIP_POINTS.length * 2);
  const put = (point: number, t: number, y: number): void => {
    lips[point * 2] = t * width * 0.5;
    lips[point * 2 + 1] = 1 + y - lift * t * t;
  };
  for (const [point, t] of [
    [0, -1],
    [10, 1],
    [20, -0.95],
    [30, 0.95],
  ] as const)
    put(point, t, 0);
  for (let k = 0; k < LIP_COLUMNS; k++) {
    const { upperOuter, upperInner, lowerInner, lowerOuter } = lipColumn(k);
    const t = (2 * (k + 1)) / (LIP_COLUMNS + 1) - 1;
    put(upperOuter, t, -0.08);
    put(upperInner, t, 0);
    put(lowerInner, t, 0.02);
    put(lowerOuter, t, 0.12);
  }
  return lips;
}
