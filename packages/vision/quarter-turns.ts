import type { Picture } from '@semblance/engine-api/picture';
import type { Detection } from './face-detector.ts';

/** Rotates the picture clockwise by quarter turns. */
export function turn(picture: Picture, quarters: 1 | 2 | 3): Picture {
  const { width: w, height: h, channels, data } = picture;
  const [width, height] = quarters === 2 ? [w, h] : [h, w];
  const out = new (data.constructor as new (length: number) => Uint8Array | Uint16Array)(data.length);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      let from = (h - 1 - y) * w + (w - 1 - x);
      if (quarters === 1) from = (h - 1 - x) * w + y;
      else if (quarters === 3) from = x * w + (w - 1 - y);
      for (let c = 0; c < channels; c++) {
        out[(y * width + x) * channels + c] = data[from * channels + c] as number;
      }
    }
  }
  return { width, height, channels, data: out };
}

/** Returns a detection of a turned picture as it lies in the picture. */
export function turnBack(detection: Detection, picture: Picture, quarters: 1 | 2 | 3): Detection {
  const { width: w, height: h } = picture;
  const back = (x: number, y: number): { x: number; y: number } => {
    if (quarters === 1) return { x: y, y: h - x };
    if (quarters === 3) return { x: w - y, y: x };
    return { x: w - x, y: h - y };
  };
  const a = back(detection.x, detection.y);
  const b = back(detection.x + detection.width, detection.y + detection.height);
  return {
    score: detection.score,
    x: Math.min(a.x, b.x),
    y: Math.min(a.y, b.y),
    width: Math.abs(a.x - b.x),
    height: Math.abs(a.y - b.y),
    keyPoints: detection.keyPoints.map((p) => back(p.x, p.y)),
  };
}
