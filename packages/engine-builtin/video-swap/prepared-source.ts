import { faceFromPoints } from '@semblance/vision/face-mesh';
import { prepareSource, type SourceFace } from '../swap/source-face.ts';
import type { SwapSource } from './swap-protocol.ts';

/**
 * Returns a function that prepares the source for faces of a width and caches the result.
 * @param most widths kept; the least recently used one goes
 */
export function preparer(
  { picture, points, score, options }: SwapSource,
  most = Number.POSITIVE_INFINITY,
): (width: number) => SourceFace {
  const made = new Map<number, SourceFace>();
  return (width) => {
    // The patch is a quarter finer than the given width.
    const source =
      made.get(width) ?? prepareSource(picture, faceFromPoints(points, score), width / 1.25, options);
    made.delete(width);
    made.set(width, source);
    for (const oldest of made.keys()) {
      if (made.size <= most) break;
      made.delete(oldest);
    }
    return source;
  };
}
