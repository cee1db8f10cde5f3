/** Returns mesh points (x, y, z of each) after a turn about the face's vertical axis. @param yaw in radians */
export function turnedMesh(points: Float32Array, yaw: number): Float32Array {
  const out = points.slice();
  const [x, z] = [points[3 * 168] as number, points[3 * 168 + 2] as number];
  for (let i = 0; i < out.length; i += 3) {
    const [dx, dz] = [(points[i] as number) - x, (points[i + 2] as number) - z];
    out[i] = x + Math.cos(yaw) * dx - Math.sin(yaw) * dz;
    out[i + 2] = z + Math.sin(yaw) * dx + Math.cos(yaw) * dz;
  }
  return out;
}
