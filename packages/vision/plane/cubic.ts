/** Writes the weights of four neighbours for a place between the middle two (Catmull and Rom 1974). */
export function cubicWeights(t: number, out: Float32Array): void {
  const u = 1 - t;
  out[0] = -0.5 * t * u * u;
  out[1] = 1 + t * t * (1.5 * t - 2.5);
  out[2] = 1 + u * u * (1.5 * u - 2.5);
  out[3] = -0.5 * u * t * t;
}
