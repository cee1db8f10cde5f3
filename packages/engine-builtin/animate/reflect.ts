import { blur, type Plane, plane, smoothstep } from '@semblance/vision/plane/plane';

/** Source of each hidden place, and its reliability. */
export interface Reflection {
  /** Offset to the source, in pixels of the planes. */
  readonly x: Plane;
  readonly y: Plane;
  /** 0–1. */
  readonly share: Plane;
}

/**
 * Continues the visible part into the hidden one by its mirror image at the border between them. Unlike a blurred
 * fill, this keeps the pattern and grain of the background and meets it without a step. It ends at a distance,
 * because mirror images of different borders meet there.
 * @param hidden above 0.5 where nothing is known
 * @param reach distances behind the border, in pixels, up to which it is used and from which it is not
 */
export function reflect(hidden: Plane, reach: readonly [number, number]): Reflection {
  const { width, height } = hidden;
  const isSeen = (i: number): boolean => (hidden.data[i] as number) <= 0.5;
  const nearest = nearestSeen(width, height, isSeen);
  const x = plane(width, height);
  const y = plane(width, height);
  const share = plane(width, height);
  for (let i = 0; i < nearest.length; i++) {
    const q = nearest[i] as number;
    if (q === i || q < 0) {
      share.data[i] = q === i ? 1 : 0;
      continue;
    }
    const dx = (q % width) - (i % width);
    const dy = Math.floor(q / width) - Math.floor(i / width);
    const depth = Math.hypot(dx, dy);
    const far = 1 - smoothstep(reach[0], reach[1], depth);
    // Near the border of the picture there may be too little to mirror, so shorter ways are tried.
    for (const way of [2, 1.6, 1.3]) {
      const sx = (i % width) + Math.round(way * dx);
      const sy = Math.floor(i / width) + Math.round(way * dy);
      if (sx < 0 || sy < 0 || sx >= width || sy >= height || !isSeen(sy * width + sx)) continue;
      x.data[i] = way * dx;
      y.data[i] = way * dy;
      share.data[i] = far;
      break;
    }
  }
  // Along a rough border the nearest place jumps.
  const even = reach[0] / 6;
  return { x: blur(x, even), y: blur(y, even), share: blur(share, even) };
}

/**
 * Returns the index of the nearest visible place (two passes over the neighbours; Danielsson 1980), -1 if there is
 * none.
 */
function nearestSeen(width: number, height: number, isSeen: (i: number) => boolean): Int32Array {
  const nearest = Int32Array.from({ length: width * height }, (_, i) => (isSeen(i) ? i : -1));
  const distance = (i: number, q: number): number =>
    ((q % width) - (i % width)) ** 2 + (Math.floor(q / width) - Math.floor(i / width)) ** 2;
  const ask = (i: number, x: number, y: number): void => {
    if (x < 0 || y < 0 || x >= width || y >= height) return;
    const q = nearest[y * width + x] as number;
    if (q < 0) return;
    const known = nearest[i] as number;
    if (known < 0 || distance(i, q) < distance(i, known)) nearest[i] = q;
  };
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) for (const dx of [-1, 0, 1]) ask(y * width + x, x + dx, y - 1);
    for (let x = 1; x < width; x++) ask(y * width + x, x - 1, y);
    for (let x = width - 2; x >= 0; x--) ask(y * width + x, x + 1, y);
  }
  for (let y = height - 1; y >= 0; y--) {
    for (let x = 0; x < width; x++) for (const dx of [-1, 0, 1]) ask(y * width + x, x + dx, y + 1);
    for (let x = 1; x < width; x++) ask(y * width + x, x - 1, y);
    for (let x = width - 2; x >= 0; x--) ask(y * width + x, x + 1, y);
  }
  return nearest;
}
