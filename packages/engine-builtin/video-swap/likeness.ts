import type { Frame } from './frame-part.ts';

/** Returns the brightness of a frame at each point of a mesh. */
export function brightnessUnder({ width, height, data }: Frame, points: Float32Array): Float32Array {
  const out = new Float32Array(points.length / 3);
  for (let i = 0; i < out.length; i++) {
    const x = Math.min(width - 1, Math.max(0, Math.floor(points[i * 3] as number)));
    const y = Math.min(height - 1, Math.max(0, Math.floor(points[i * 3 + 1] as number)));
    out[i] = data[y * width + x] as number;
  }
  return out;
}

/**
 * Returns the correlation of the brightness under two meshes, each in its own frame. It is near 1 when both show
 * the same face.
 */
export function likeness(a: Float32Array, b: Float32Array): number {
  const n = a.length;
  let [sa, sb, saa, sbb, sab] = [0, 0, 0, 0, 0];
  for (let i = 0; i < n; i++) {
    const va = a[i] as number;
    const vb = b[i] as number;
    sa += va;
    sb += vb;
    saa += va * va;
    sbb += vb * vb;
    sab += va * vb;
  }
  const spread = Math.sqrt(Math.max(0, saa - (sa * sa) / n) * Math.max(0, sbb - (sb * sb) / n));
  return spread < 1 ? 0 : (sab - (sa * sb) / n) / spread;
}
