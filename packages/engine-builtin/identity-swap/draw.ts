import type { Plane } from '@semblance/vision/plane/plane';
import type { Planes } from '../animate/openings.ts';
import { type BytePlane, drawTexture } from '../animate/raster.ts';
import type { TriangleGeometry } from '../animate/triangle-spans.ts';
import type { Cutout } from './cutout.ts';
import type { HeadPatch } from './head.ts';
import type { PosedBody } from './pose.ts';
import { type Layer, layersOf, placeLayer } from './puppet.ts';
import type { Skeleton } from './skeleton.ts';

/** A cut-out at one size, ready to be drawn. */
interface Level {
  readonly factor: number;
  readonly whole: Planes;
  readonly armless: Planes;
  readonly layers: readonly {
    readonly from: Float32Array;
    readonly luma: BytePlane;
    readonly chroma: BytePlane;
  }[];
}

/** Number of sizes; smaller drawings use the smallest. */
const LEVELS = 3;

/** Draws a character over frames. */
export class CharacterDrawer {
  readonly layers: readonly Layer[];
  readonly #own: Skeleton;
  readonly #levels: Level[];
  readonly #both: readonly Uint16Array[];

  constructor(cutout: Cutout) {
    this.layers = layersOf(cutout);
    this.#own = cutout.skeleton;
    this.#levels = [firstLevel(cutout, this.layers)];
    while (this.#levels.length < LEVELS) this.#levels.push(halved(this.#levels.at(-1) as Level));
    // Triangles are visible from one side only, so each is added twice: folded and mirrored ones must be visible
    // too.
    this.#both = this.layers.map(({ triangles }) => {
      const out = new Uint16Array(triangles.length * 2);
      for (let t = 0; t < triangles.length; t += 3) {
        const [a, b, c] = triangles.subarray(t, t + 3) as unknown as [number, number, number];
        out.set([a, c, b], t);
        out.set([a, b, c], triangles.length + t);
      }
      return out;
    });
  }

  /** @param head patch for the head in this and all following frames */
  draw(frame: Planes, body: PosedBody, head?: HeadPatch): void {
    const level = this.#levels.findLast(({ factor }) => body.scale <= factor) ?? (this.#levels[0] as Level);
    if (head)
      putHead(
        level,
        this.layers.findIndex(({ part }) => part === 'trunk'),
        head,
      );
    for (const part of body.order) {
      const i = this.layers.findIndex((layer) => layer.part === part);
      if (i < 0) continue;
      const layer = this.layers[i] as Layer;
      const { from, luma, chroma } = level.layers[i] as Level['layers'][number];
      const texture = part.endsWith('Arm') ? level.whole : level.armless;
      const triangles = this.#both[i] as Uint16Array;
      const geometry: TriangleGeometry = {
        to: placeLayer(layer, this.#own, body),
        from,
        triangles,
        scale: 1,
      };
      drawTexture(frame.y, texture.y, geometry, luma);
      const half = { ...geometry, scale: 0.5 };
      drawTexture(frame.u, texture.u, half, chroma);
      drawTexture(frame.v, texture.v, half, chroma);
    }
  }
}

/** Replaces the head of a level. */
function putHead({ factor, armless, layers }: Level, trunk: number, head: HeadPatch): void {
  let { left, top, planes, alpha } = head;
  for (let f = 1; f > factor; f /= 2) {
    [left, top] = [left / 2, top / 2];
    planes = { y: shrunk(planes.y), u: shrunk(planes.u), v: shrunk(planes.v) };
    alpha = shrunk(alpha);
  }
  const { luma, chroma } = layers[trunk] as Level['layers'][number];
  put(planes.y, armless.y, left, top);
  put(planes.u, armless.u, left / 2, top / 2);
  put(planes.v, armless.v, left / 2, top / 2);
  put(alpha, luma, left, top);
  put(shrunk(alpha), chroma, left / 2, top / 2);
}

function put(from: BytePlane, to: BytePlane, left: number, top: number): void {
  for (let y = 0; y < from.height; y++) {
    const row = from.data.subarray(y * from.width, (y + 1) * from.width);
    to.data.set(row, (top + y) * to.width + left);
  }
}

function firstLevel({ whole, armless }: Cutout, layers: readonly Layer[]): Level {
  return {
    // Heads are drawn into this copy, not into the cut-out itself.
    factor: 1,
    whole,
    armless: copied(armless),
    layers: layers.map(({ from, alpha }) => {
      const luma = bytes(alpha);
      return { from, luma, chroma: shrunk(luma) };
    }),
  };
}

function halved({ factor, whole, armless, layers }: Level): Level {
  const small = ({ y, u, v }: Planes): Planes => ({ y: shrunk(y), u: shrunk(u), v: shrunk(v) });
  return {
    factor: factor / 2,
    whole: small(whole),
    armless: small(armless),
    layers: layers.map(({ from, luma, chroma }) => ({
      from: from.map((value) => value / 2),
      luma: shrunk(luma),
      chroma: shrunk(chroma),
    })),
  };
}

function copied({ y, u, v }: Planes): Planes {
  const copy = (plane: BytePlane): BytePlane => ({ ...plane, data: plane.data.slice() });
  return { y: copy(y), u: copy(u), v: copy(v) };
}

function bytes({ width, height, data }: Plane): BytePlane {
  const out = new Uint8Array(data.length);
  for (let i = 0; i < out.length; i++) out[i] = 255 * (data[i] as number) + 0.5;
  return { width, height, data: out };
}

/** Halves a plane; each pixel is the mean of four. */
function shrunk({ width, height, data }: BytePlane): BytePlane {
  const [w, h] = [Math.max(2, width >> 1), Math.max(2, height >> 1)];
  const out = new Uint8Array(w * h);
  for (let y = 0; y < h; y++) {
    const upper = Math.min(height - 1, 2 * y) * width;
    const lower = Math.min(height - 1, 2 * y + 1) * width;
    for (let x = 0; x < w; x++) {
      const [l, r] = [Math.min(width - 1, 2 * x), Math.min(width - 1, 2 * x + 1)];
      out[y * w + x] =
        ((data[upper + l] as number) +
          (data[upper + r] as number) +
          (data[lower + l] as number) +
          (data[lower + r] as number) +
          2) >>
        2;
    }
  }
  return { width: w, height: h, data: out };
}
