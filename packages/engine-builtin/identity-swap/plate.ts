import { type Plane, plane } from '@semblance/vision/plane/plane';
import type { Planes } from '../animate/openings.ts';
import { planesOf } from '../animate/yuv.ts';
import { type Affine, compose, IDENTITY, invert } from './geometry.ts';
import { type Box, colourAt, compareLight, LIGHT_CELL } from './plate-light.ts';
import { register, standsStill } from './register.ts';

/** Frame width, in pixels, above which the camera is tracked in cells of four pixels; below, of two. */
const BROAD = 800;
/** Weight per frame of an older observation of the background; after half a second it has lost a fifth. */
const AGING = 0.985;
/**
 * Mean difference, in levels, from which the camera's motion does not explain the background and a new plate
 * begins.
 */
const LOST = 14;
/** Share of the frame by which the camera may leave the plate. */
const AWAY = 0.3;

/** A frame and what is known about it. */
export interface Sight {
  readonly frame: Planes;
  /** Distance of each chroma pixel from the person, in chroma pixels; the size of the chroma planes. */
  readonly distance: Plane;
  /** Distance from the person, in chroma pixels, below which the background is not trusted. */
  readonly near: number;
}

/**
 * The background behind the person, collected from the frames in which it was visible. It is aligned with the
 * frames of a still camera. When the camera moves, each frame is registered to it.
 */
export class BackgroundPlate {
  readonly #width: number;
  readonly #height: number;
  /** Cell size, in frame pixels, in which the camera is tracked. */
  readonly #cell: 2 | 4;
  #planes: Planes;
  /** Quality of each chroma pixel: 0 never seen, otherwise its distance from the person when it was seen. */
  #quality: Float32Array;
  #begun = false;
  #last: Affine = IDENTITY;
  #velocity: Affine = IDENTITY;
  constructor(width: number, height: number) {
    this.#width = width;
    this.#height = height;
    this.#cell = width > BROAD ? 4 : 2;
    this.#planes = planesOf(new Uint8Array((width * height * 3) / 2), width, height);
    this.#quality = new Float32Array((width * height) / 4);
  }

  /** Forgets everything, as after a cut. */
  reset(): void {
    this.#quality.fill(0);
    this.#begun = false;
    this.#last = IDENTITY;
    this.#velocity = IDENTITY;
  }

  /**
   * Registers a frame to the plate.
   * @returns the map from the plate to the frame; undefined when the frame does not lie on the plate
   */
  locate({ frame, distance, near }: Sight): Affine | undefined {
    if (!this.#begun) return IDENTITY;
    const [base, known] = this.#small();
    const guess = scaledMap(compose(this.#velocity, this.#last), 1 / this.#cell);
    hideCovered(known, guess, { distance, near: near + 2, cell: this.#cell });
    const { map: found, residual } = register(base, smallLuma(frame.y, this.#cell), known, guess);
    const map = scaledMap(found, this.#cell);
    const size = Math.hypot(map[0], map[3]);
    const shift = Math.max(Math.abs(map[2]) / this.#width, Math.abs(map[5]) / this.#height);
    if (residual > LOST || !(size > 0.7 && size < 1.4) || !(shift < AWAY)) return undefined;
    return standsStill(found, base.width, base.height) ? IDENTITY : map;
  }

  /** Adds the visible background of a frame. @param map the result of {@link locate} */
  remember({ frame, distance, near }: Sight, map: Affine): void {
    this.#velocity = map === IDENTITY ? IDENTITY : compose(map, invert(this.#last));
    this.#begun = true;
    this.#last = map;
    for (let i = 0; i < this.#quality.length; i++) this.#quality[i] = (this.#quality[i] as number) * AGING;
    if (map === IDENTITY) this.#takeStill(frame, distance, near);
    else this.#take(frame, distance, near, map);
  }

  /** Returns the plate's brightness at reduced size, and where it is known. */
  #small(): [Plane, Plane] {
    const luma = smallLuma(this.#planes.y, this.#cell);
    const known = plane(luma.width, luma.height);
    const chroma = this.#width / 2;
    const across = this.#cell / 2;
    const last = across - 1;
    const q = this.#quality;
    for (let y = 0; y < known.height; y++) {
      for (let x = 0; x < known.width; x++) {
        const i = across * (y * chroma + x);
        const j = i + last * chroma;
        const least = Math.min(
          ...([q[i], q[i + last], q[j], q[j + last]] as [number, number, number, number]),
        );
        known.data[y * known.width + x] = least > 0 ? 1 : 0;
      }
    }
    return [luma, known];
  }

  #takeStill(frame: Planes, distance: Plane, near: number): void {
    const { y: luma, u, v } = this.#planes;
    const [quality, width] = [this.#quality, this.#width];
    const half = width / 2;
    for (let i = 0; i < quality.length; i++) {
      const far = distance.data[i] as number;
      if (far < near || far < (quality[i] as number)) continue;
      quality[i] = far;
      u.data[i] = frame.u.data[i] as number;
      v.data[i] = frame.v.data[i] as number;
      const o = 2 * (Math.floor(i / half) * width + (i % half));
      luma.data[o] = frame.y.data[o] as number;
      luma.data[o + 1] = frame.y.data[o + 1] as number;
      luma.data[o + width] = frame.y.data[o + width] as number;
      luma.data[o + width + 1] = frame.y.data[o + width + 1] as number;
    }
  }

  #take(frame: Planes, distance: Plane, near: number, map: Affine): void {
    const { y: luma, u, v } = this.#planes;
    const [a, b, c, d, e, f] = map;
    const [half, rows] = [this.#width / 2, this.#height / 2];
    for (let y = 0; y < rows; y++) {
      for (let x = 0; x < half; x++) {
        const i = y * half + x;
        const px = a * (x + 0.5) + b * (y + 0.5) + c / 2;
        const py = d * (x + 0.5) + e * (y + 0.5) + f / 2;
        if (px < 1 || py < 1 || px >= half - 1 || py >= rows - 1) continue;
        const far = distance.data[(py | 0) * half + (px | 0)] as number;
        if (far < near || far < (this.#quality[i] as number)) continue;
        this.#quality[i] = far;
        u.data[i] = between(frame.u.data, half, px, py);
        v.data[i] = between(frame.v.data, half, px, py);
        for (let k = 0; k < 4; k++) {
          const [lx, ly] = [2 * x + (k & 1), 2 * y + (k >> 1)];
          const sx = a * (lx + 0.5) + b * (ly + 0.5) + c;
          const sy = d * (lx + 0.5) + e * (ly + 0.5) + f;
          luma.data[ly * this.#width + lx] = between(frame.y.data, this.#width, sx, sy);
        }
      }
    }
  }

  /**
   * Replaces the person by the background.
   * @param hole share of each chroma pixel that becomes background, 0–1
   * @param map the result of {@link locate}
   * @param rest distance of each chroma pixel from a person of whom a part stays, which shows no background
   */
  fill(frame: Planes, hole: Plane, map: Affine, rest?: Plane): void {
    const back = map === IDENTITY ? IDENTITY : invert(map);
    const box = boxOf(hole);
    if (!box) return;
    const { fill, light } = compareLight(frame, { planes: this.#planes, quality: this.#quality }, hole, {
      back,
      box,
      rest,
    });
    const [a, b, c, d, e, f] = back;
    const still = back === IDENTITY;
    const [width, half, rows] = [this.#width, this.#width / 2, this.#height / 2];
    const { y: luma, u, v } = this.#planes;
    const colour = new Float32Array(3);
    const shift = new Float32Array(3);
    for (let y = box.top; y < box.bottom; y++) {
      for (let x = box.left; x < box.right; x++) {
        const i = y * half + x;
        const share = hole.data[i] as number;
        if (share < 0.004) continue;
        const px = a * (x + 0.5) + b * (y + 0.5) + c / 2;
        const py = d * (x + 0.5) + e * (y + 0.5) + f / 2;
        const inside = still || (px >= 1 && py >= 1 && px < half - 1 && py < rows - 1);
        let known = 0;
        if (still) known = Math.min(1, this.#quality[i] as number);
        else if (inside) known = leastAround(this.#quality, half, px, py);
        const gx = ((x + 0.5) * 2) / LIGHT_CELL;
        const gy = ((y + 0.5) * 2) / LIGHT_CELL;
        colourAt(light, gx, gy, shift);
        if (known < 1) colourAt(fill, gx, gy, colour);
        // Combines the known background with made-up colours where the plate knows nothing.
        for (let k = 0; k < 3; k++) {
          colour[k] = (colour[k] as number) * (1 - known) + (shift[k] as number) * known;
        }
        const made = known * share;
        const rest = 1 - share;
        const madeU = inside ? (still ? (u.data[i] as number) : between(u.data, half, px, py)) : 0;
        const madeV = inside ? (still ? (v.data[i] as number) : between(v.data, half, px, py)) : 0;
        frame.u.data[i] = clampByte(
          (frame.u.data[i] as number) * rest + madeU * made + (colour[1] as number) * share,
        );
        frame.v.data[i] = clampByte(
          (frame.v.data[i] as number) * rest + madeV * made + (colour[2] as number) * share,
        );
        const base = (colour[0] as number) * share;
        for (let k = 0; k < 4; k++) {
          const lx = 2 * x + (k & 1);
          const ly = 2 * y + (k >> 1);
          const o = ly * width + lx;
          let value = 0;
          if (still) value = luma.data[o] as number;
          else if (inside) {
            value = between(
              luma.data,
              width,
              a * (lx + 0.5) + b * (ly + 0.5) + c,
              d * (lx + 0.5) + e * (ly + 0.5) + f,
            );
          }
          frame.y.data[o] = clampByte((frame.y.data[o] as number) * rest + value * made + base);
        }
      }
    }
  }
}

const clampByte = (value: number): number => (value <= 0 ? 0 : value >= 255 ? 255 : (value + 0.5) | 0);

/** Returns the same map between pictures of another size. */
function scaledMap([a, b, c, d, e, f]: Affine, by: number): Affine {
  return [a, b, c * by, d, e, f * by];
}

/** Excludes the places that the person covers from the comparison. */
function hideCovered(
  known: Plane,
  [a, b, c, d, e, f]: Affine,
  { distance, near, cell }: { distance: Plane; near: number; cell: number },
): void {
  for (let y = 0; y < known.height; y++) {
    for (let x = 0; x < known.width; x++) {
      const i = y * known.width + x;
      if (known.data[i] === 0) continue;
      const cx = ((a * (x + 0.5) + b * (y + 0.5) + c) * cell) >> 1;
      const cy = ((d * (x + 0.5) + e * (y + 0.5) + f) * cell) >> 1;
      const inside = cx >= 0 && cy >= 0 && cx < distance.width && cy < distance.height;
      if (!inside || (distance.data[cy * distance.width + cx] as number) < near) known.data[i] = 0;
    }
  }
}

function smallLuma({ width, height, data }: Planes['y'], cell: number): Plane {
  const out = plane(Math.floor(width / cell), Math.floor(height / cell));
  for (let y = 0; y < out.height; y++) {
    for (let x = 0; x < out.width; x++) {
      let sum = 0;
      for (let dy = 0; dy < cell; dy++) {
        const row = (y * cell + dy) * width + x * cell;
        for (let dx = 0; dx < cell; dx++) sum += data[row + dx] as number;
      }
      out.data[y * out.width + x] = sum / cell ** 2;
    }
  }
  return out;
}

/** Interpolates between four values; x and y are continuous and clamped by the caller. */
function between(data: Uint8Array, width: number, x: number, y: number): number {
  const px = Math.max(0, x - 0.5);
  const py = Math.max(0, y - 0.5);
  const i = (py | 0) * width + (px | 0);
  const u = px - (px | 0);
  const v = py - (py | 0);
  const upper = (data[i] as number) * (1 - u) + (data[i + 1] as number) * u;
  if (v === 0) return upper;
  const lower = (data[i + width] as number) * (1 - u) + (data[i + width + 1] as number) * u;
  return upper + (lower - upper) * v;
}

/**
 * Returns the least quality around a place, at most 1: an interpolated value is as good as the worst of its pixels.
 */
function leastAround(quality: Float32Array, width: number, x: number, y: number): number {
  let least = 1;
  for (let row = (y | 0) - 1; row <= (y | 0) + 1; row++) {
    for (let i = row * width + (x | 0) - 1, end = i + 2; i <= end; i++) {
      least = Math.min(least, quality[i] as number);
    }
  }
  return least;
}

/** Returns the bounding box of the non-zero part of a plane. */
function boxOf({ width, height, data }: Plane): Box | undefined {
  let [left, top, right, bottom] = [width, height, 0, 0];
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      if ((data[y * width + x] as number) < 0.004) continue;
      left = Math.min(left, x);
      right = Math.max(right, x + 1);
      top = Math.min(top, y);
      bottom = y + 1;
    }
  }
  return right > left ? { left, top, right, bottom } : undefined;
}
