import type { Box } from '@semblance/engine-api/people';
import type { Face } from '@semblance/vision/face-mesh';
import { extent } from '../video-swap/frame-part.ts';

/** Returns the box of a face as shares of its picture, within it. */
export function boxOf(
  face: Face,
  { width, height }: { readonly width: number; readonly height: number },
): Box {
  const { left, top, right, bottom } = extent(face.points);
  const [x0, x1] = [left, right].map((x) => share(x / width)) as [number, number];
  const [y0, y1] = [top, bottom].map((y) => share(y / height)) as [number, number];
  return { x: x0, y: y0, width: round(x1 - x0), height: round(y1 - y0) };
}

/** Returns the share of the smaller box that both cover. */
export function overlap(a: Box, b: Box): number {
  const across = Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x);
  const down = Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y);
  if (across <= 0 || down <= 0) return 0;
  return (across * down) / Math.max(1e-9, Math.min(a.width * a.height, b.width * b.height));
}

const round = (value: number): number => Math.round(value * 10_000) / 10_000;
const share = (value: number): number => round(Math.min(1, Math.max(0, value)));
