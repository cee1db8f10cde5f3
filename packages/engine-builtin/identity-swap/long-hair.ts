import { FACE_OVAL } from '@semblance/vision/face-regions';
import type { RgbImage } from '@semblance/vision/picture';
import { pushPull } from '@semblance/vision/plane/fill';
import { flood } from '@semblance/vision/plane/flood';
import { blur, fillPolygon, type Plane, plane, sample, smoothstep } from '@semblance/vision/plane/plane';
import { colourCell, histogram } from '../animate/matte.ts';
import type { Planes } from '../animate/openings.ts';
import type { HeadSpot } from './head-place.ts';
import type { Skeleton } from './skeleton.ts';

/** Eye distance in cells of the grid on which hair is looked for. */
const CELLS = 14;
/** The searched part around the eyes, in eye distances: to the sides, up and down. */
const REACH = { side: 4, up: 3, down: 6 } as const;
/** Heights above the chin of the band beside the cheek. */
const CHEEK = [-0.9, -0.4] as const;
/** Distance from the person's mask, in cells, up to which hair may lie. */
const FREE = 3;
/** Area of hair on one side in this band and below it, in squared eye distances, from which it is long. */
const BESIDE = [0.1, 0.2] as const;
const LONG = [0.2, 0.5] as const;

/** A part of a frame on a coarse grid, in coordinates of the face. */
interface Grid {
  readonly width: number;
  readonly height: number;
  /** Chroma pixels per cell, and the first pixel. */
  readonly step: number;
  readonly left: number;
  readonly top: number;
  /** Brightness, and colour differences. */
  readonly image: RgbImage;
  readonly cells: Int32Array;
  readonly across: Float32Array;
  /** Distance below the chin, in eye distances. */
  readonly below: Float32Array;
  readonly distance: Float32Array;
  /** 1 inside the outline of the face. */
  readonly face: Plane;
}

/** The person's hair over neck and shoulders. */
export interface LongHair {
  /** Share of each chroma pixel that is hair before the background. */
  readonly free: Plane;
  /** Covers the hair that lies over clothes with the colours around it. */
  readonly cover: (frame: Planes) => void;
}

/** Finds long hair that a character with other hair does not have. */
export class HairFinder {
  #odds: Float64Array | undefined;
  #skin: Float64Array | undefined;

  /**
   * @param face x and y of the mesh points
   * @param chin distance of the chin from the eyes, in eye distances
   */
  look(
    frame: Planes,
    distance: Plane,
    { face, spot, chin, of }: { face: Float32Array | undefined; spot: HeadSpot; chin: number; of: Skeleton },
  ): LongHair | undefined {
    const grid = gridOf(frame, distance, { face, spot, chin });
    if (face) this.#learn(grid);
    if (!this.#odds) return undefined;
    const torso = torsoIn(grid, of, spot, chin);
    const hair = this.#hairIn(grid, torso);
    if (!hair) return undefined;
    const free = plane(distance.width, distance.height);
    each(grid, free, (i, x, y) => {
      free.data[i] = sample(hair, x, y) * (1 - sample(torso, x, y));
    });
    return { free, cover: (to) => this.#cover(to, grid, hair, torso) };
  }

  #learn({ cells, below, across, distance, face }: Grid): void {
    if (this.#odds) return;
    const at = (list: Float32Array, i: number): number => list[i] as number;
    const inside = (i: number): boolean => at(distance, i) === 0;
    const isFace = (i: number): boolean => (face.data[i] as number) > 0.5;
    const head = histogram(cells, (i) => (inside(i) && !isFace(i) && at(below, i) < CHEEK[0] ? 1 : 0));
    const skin = histogram(cells, (i) => (isFace(i) ? 1 : 0));
    const body = histogram(cells, (i) =>
      inside(i) && at(below, i) > (Math.abs(at(across, i)) < 0.8 ? 0.5 : 2.6) ? 1 : 0,
    );
    const room = histogram(cells, (i) => (at(distance, i) > FREE ? 1 : 0));
    this.#skin = skin;
    this.#odds = head.map((share, c) =>
      Math.log((share + 2e-5) / (Math.max(skin[c] as number, body[c] as number, room[c] as number) + 2e-5)),
    );
  }

  /** Returns the hair below the cheeks that is connected with that of the head. */
  #hairIn({ width, height, cells, below, across, distance, face }: Grid, torso: Plane): Plane | undefined {
    const odds = this.#odds as Float64Array;
    const raw = plane(width, height);
    const seeds: number[] = [];
    for (let i = 0; i < cells.length; i++) {
      const [down, far] = [below[i] as number, distance[i] as number];
      if (far > FREE || (face.data[i] as number) > 0.5) continue;
      const under =
        (1 - smoothstep(0.45, 0.75, Math.abs(across[i] as number))) * smoothstep(-0.4, -0.1, down);
      // Above the shoulders hair is likelier than clothes of its colour.
      const wide = Math.abs(across[i] as number);
      const over = smoothstep(0.6, 0.9, wide) * (1 - (torso.data[i] as number));
      const beyond = smoothstep(1.7, 2.1, wide) * (torso.data[i] as number);
      const value =
        (odds[cells[i] as number] as number) +
        1.5 * over -
        4 * under -
        6 * beyond -
        2 * smoothstep(2.5, 3.5, down);
      raw.data[i] = 1 / (1 + Math.exp(-1.5 * value));
      if (down < CHEEK[0] && (raw.data[i] as number) > 0.5) seeds.push(i);
    }
    const smooth = blur(raw, 0.8);
    const joined = flood(width, height, seeds, (i) => (smooth.data[i] as number) > 0.5);
    const out = plane(width, height);
    // Hair that does not come down beside the cheek is short, and what looks like it below are dark clothes.
    const [beside, fallen] = [
      [0, 0],
      [0, 0],
    ];
    const sideOf = (i: number): 0 | 1 => ((across[i] as number) < 0 ? 0 : 1);
    for (let i = 0; i < out.data.length; i++) {
      const down = below[i] as number;
      if (!joined[i] || down < CHEEK[0]) continue;
      out.data[i] = 1;
      const counts = down < CHEEK[1] ? beside : fallen;
      counts[sideOf(i)] = (counts[sideOf(i)] as number) + 1;
    }
    const sure = [0, 1].map(
      (side) =>
        smoothstep(BESIDE[0], BESIDE[1], (beside[side] as number) / CELLS ** 2) *
        smoothstep(LONG[0], LONG[1], (fallen[side] as number) / CELLS ** 2),
    );
    if (sure[0] === 0 && sure[1] === 0) return undefined;
    const wide = blur(out, 0.9);
    const data = wide.data.map((value, i) => (sure[sideOf(i)] as number) * smoothstep(0.08, 0.4, value));
    return { ...wide, data };
  }

  #cover(frame: Planes, grid: Grid, hair: Plane, torso: Plane): void {
    const { width, height, cells, below, distance, face, image } = grid;
    const skin = this.#skin as Float64Array;
    const clothes = plane(width, height);
    for (let i = 0; i < cells.length; i++) {
      const cell = cells[i] as number;
      const isCloth =
        distance[i] === 0 &&
        (below[i] as number) > 0.2 &&
        (face.data[i] as number) < 0.5 &&
        (hair.data[i] as number) < 0.02 &&
        (skin[cell] as number) < 2e-3;
      clothes.data[i] = isCloth ? 1 : 0;
    }
    const filled = pushPull(image, clothes);
    const channel = (k: number): Plane => {
      const out = plane(width, height);
      for (let i = 0; i < out.data.length; i++) out.data[i] = filled.data[i * 3 + k] as number;
      return out;
    };
    const [luma, u, v] = [channel(0), channel(1), channel(2)] as [Plane, Plane, Plane];
    each(grid, { width: frame.u.width, height: frame.u.height }, (i, x, y, column, row) => {
      const share = sample(hair, x, y) * sample(torso, x, y);
      if (share < 0.01) return;
      const put = (to: Uint8Array, at: number, value: number): void => {
        const was = to[at] as number;
        to[at] = was + share * (value - was) + 0.5;
      };
      put(frame.u.data, i, sample(u, x, y) + 128);
      put(frame.v.data, i, sample(v, x, y) + 128);
      const o = 2 * (row * frame.y.width + column);
      const light = sample(luma, x, y);
      for (const at of [o, o + 1, o + frame.y.width, o + frame.y.width + 1]) put(frame.y.data, at, light);
    });
  }
}

/** Calls a function for each chroma pixel of the part, with its place on the grid. */
function each(
  { left, top, step, width, height }: Grid,
  size: { readonly width: number; readonly height: number },
  call: (i: number, x: number, y: number, column: number, row: number) => void,
): void {
  for (let row = top; row < Math.min(size.height, top + step * height); row++) {
    for (let column = left; column < Math.min(size.width, left + step * width); column++) {
      call(row * size.width + column, (column - left + 0.5) / step, (row - top + 0.5) / step, column, row);
    }
  }
}

function gridOf(
  frame: Planes,
  distance: Plane,
  { face, spot, chin }: { face: Float32Array | undefined; spot: HeadSpot; chin: number },
): Grid {
  const half = spot.iod / 2;
  const step = Math.max(1, Math.round(half / CELLS));
  const within = (value: number, most: number): number => Math.min(most, Math.max(0, Math.floor(value)));
  const left = within(spot.x / 2 - REACH.side * half, distance.width - 1);
  const top = within(spot.y / 2 - REACH.up * half, distance.height - 1);
  const right = within(spot.x / 2 + REACH.side * half, distance.width);
  const bottom = within(spot.y / 2 + REACH.down * half, distance.height);
  const [width, height] = [
    Math.max(1, Math.floor((right - left) / step)),
    Math.max(1, Math.floor((bottom - top) / step)),
  ];
  const count = width * height;
  const image = { width, height, data: new Float32Array(count * 3) };
  const grid = {
    ...{ width, height, step, left, top, image },
    cells: new Int32Array(count),
    across: new Float32Array(count),
    below: new Float32Array(count),
    distance: new Float32Array(count),
    face: plane(width, height),
  };
  if (face) {
    const outline = FACE_OVAL.flatMap((i) => [
      ((face[i * 2] as number) / 2 - left) / step,
      ((face[i * 2 + 1] as number) / 2 - top) / step,
    ]);
    fillPolygon(grid.face, outline);
  }
  const [cos, sin] = [Math.cos(spot.angle), Math.sin(spot.angle)];
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const i = y * width + x;
      const [column, row] = [left + x * step + (step >> 1), top + y * step + (step >> 1)];
      const c = row * distance.width + column;
      const light = frame.y.data[2 * (row * frame.y.width + column)] as number;
      const [cb, cr] = [(frame.u.data[c] as number) - 128, (frame.v.data[c] as number) - 128];
      image.data.set([light, cb, cr], i * 3);
      grid.cells[i] = colourCell(light, cb, cr);
      const [dx, dy] = [2 * column + 1 - spot.x, 2 * row + 1 - spot.y];
      grid.across[i] = (dx * sin - dy * cos) / spot.iod;
      grid.below[i] = (dx * cos + dy * sin) / spot.iod - chin;
      grid.distance[i] = (distance.data[c] as number) / step;
    }
  }
  return grid;
}

/** Returns where the person's trunk is, below the line from the neck over the shoulders. */
function torsoIn(
  { width, height, left, top, step }: Grid,
  of: Skeleton,
  spot: HeadSpot,
  chin: number,
): Plane {
  const out = plane(width, height);
  const { iod } = spot;
  const neck = {
    x: spot.x + (chin + 0.5) * iod * Math.cos(spot.angle),
    y: spot.y + (chin + 0.5) * iod * Math.sin(spot.angle),
  };
  const side = Math.hypot(of.shoulderSide.x, of.shoulderSide.y);
  const unit = {
    x: Math.abs(of.shoulderSide.x) / Math.max(1, side),
    y: of.shoulderSide.y / Math.max(1, side),
  };
  if (of.shoulderSide.x < 0) unit.y = -unit.y;
  const shoulder = (sign: 1 | -1): [number, number] => [
    of.shoulders.x + sign * unit.x * (side + 0.5 * iod),
    of.shoulders.y + sign * unit.y * (side + 0.5 * iod) - 0.3 * iod,
  ];
  const low = 1e4;
  const outline = [
    ...[neck.x - 0.8 * iod, neck.y],
    ...[neck.x + 0.8 * iod, neck.y],
    ...shoulder(1),
    ...[shoulder(1)[0] + 0.5 * iod, low],
    ...[shoulder(-1)[0] - 0.5 * iod, low],
    ...shoulder(-1),
  ];
  fillPolygon(
    out,
    outline.map((value, k) => (value / 2 - (k % 2 === 0 ? left : top)) / step),
  );
  return blur(out, 0.5);
}
