import type { Picture } from '@semblance/engine-api/picture';
import { rgbToYuv } from '@semblance/engine-builtin/internal/animate/yuv';
import type { Face } from '@semblance/vision/face-mesh';

/** Pose of a head in one frame; angles in radians, distances as shares of the face's width. */
export interface HeadMove {
  readonly roll: number;
  readonly yaw: number;
  readonly pitch: number;
  readonly dx: number;
  readonly dy: number;
  readonly scale: number;
  /** Distance by which the jaw is dropped. */
  readonly jaw: number;
}

/**
 * Draws a turned head without the engine's animator. The photograph is mapped onto an ellipsoid that is rotated and
 * seen from the front. Below the mouth it is cut open and the jaw is shifted down.
 */
export function turnedHead(picture: Picture, face: Face, move: HeadMove): Uint8Array {
  const { width, height, data } = picture;
  const at = (i: number): { x: number; y: number } => ({
    x: face.points[i * 3] as number,
    y: face.points[i * 3 + 1] as number,
  });
  const brow = at(168);
  const chin = at(152);
  const center = { x: (brow.x + chin.x) / 2, y: brow.y * 0.6 + chin.y * 0.4 };
  const rx = face.width * 0.72;
  const ry = face.width * 1.0;
  const rz = face.width * 0.75;
  const lips = {
    x: (at(61).x + at(291).x) / 2,
    y: (at(13).y + at(14).y) / 2,
    half: (at(291).x - at(61).x) * 0.42,
  };
  const drop = move.jaw * face.width;
  const [cr, sr] = [Math.cos(move.roll), Math.sin(move.roll)];
  const [cy, sy] = [Math.cos(move.yaw), Math.sin(move.yaw)];
  const [cp, sp] = [Math.cos(move.pitch), Math.sin(move.pitch)];
  const out = new Uint8ClampedArray(width * height * 3);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const px = (x + 0.5 - center.x - move.dx * face.width) / move.scale;
      const py = (y + 0.5 - center.y - move.dy * face.width) / move.scale;
      // Inverts the roll, projects onto the nearer side of the ellipsoid, then inverts yaw and pitch.
      const ux = cr * px + sr * py;
      const uy = -sr * px + cr * py;
      const inside = (ux / rx) ** 2 + (uy / ry) ** 2;
      let tx = ux;
      let ty = uy;
      if (inside < 1) {
        const uz = -rz * Math.sqrt(1 - inside);
        // Inverse of: pitch about x, then yaw about y (the nose points to the picture's right for yaw > 0).
        const vx = (cy * ux) / rx + (sy * uz) / rz;
        const vz = (-sy * ux) / rx + (cy * uz) / rz;
        const vy = uy / ry;
        tx = rx * vx;
        ty = ry * (cp * vy + sp * vz);
      }
      let sx = center.x + tx;
      let sy2 = center.y + ty;
      let dark = false;
      const from = sy2 - lips.y;
      if (drop > 0 && from > 0 && Math.abs(sx - lips.x) < face.width * 0.5) {
        const across = Math.min(1, Math.abs(sx - lips.x) / lips.half);
        const open = drop * Math.sqrt(Math.max(0, 1 - across * across));
        const near = Math.max(open, drop * Math.max(0, 1 - ((Math.abs(sx - lips.x) / face.width) * 2) ** 2));
        if (from < open) dark = true;
        else sy2 -= near * Math.max(0, 1 - Math.max(0, from - face.width * 0.35) / (face.width * 0.35));
      }
      sx = Math.min(width - 1.001, Math.max(0, sx - 0.5));
      sy2 = Math.min(height - 1.001, Math.max(0, sy2 - 0.5));
      const ix = sx | 0;
      const iy = sy2 | 0;
      const fx = sx - ix;
      const fy = sy2 - iy;
      const o = (y * width + x) * 3;
      if (dark) {
        out[o] = 45;
        out[o + 1] = 18;
        out[o + 2] = 18;
        continue;
      }
      const i = (iy * width + ix) * 3;
      for (let c = 0; c < 3; c++) {
        const a = data[i + c] as number;
        const b = data[i + 3 + c] as number;
        const top = a + (b - a) * fx;
        const d = data[i + width * 3 + c] as number;
        const e = data[i + width * 3 + 3 + c] as number;
        out[o + c] = top + (d + (e - d) * fx - top) * fy;
      }
    }
  }
  return rgbToYuv(new Uint8Array(out.buffer), width, height);
}
