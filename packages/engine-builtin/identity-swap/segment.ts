import { fillPolygon, type Plane, plane } from '@semblance/vision/plane/plane';
import { add, mix, sub, times, toSegment, type Vec } from './geometry.ts';
import { LIMBS, type Limb, type Skeleton } from './skeleton.ts';

/** Labels of a cut-out: the trunk with the head, and each limb (1 + its index in LIMBS). */
export const TRUNK = 0;
const NOBODY = 255;
export const labelOf = (limb: Limb): number => 1 + LIMBS.indexOf(limb);

/** Half the usual width of a limb, in body sizes. */
export const LIMB_RADIUS: Readonly<Record<Limb, number>> = {
  leftArm: 0.13,
  rightArm: 0.13,
  leftLeg: 0.19,
  rightLeg: 0.19,
};
/** Additional cost of a step over an edge of the picture, per level of brightness. */
const EDGE_COST = 0.006;

/** Number of visible bones of each limb: 0, 1 (to the elbow or knee) or 3 (to its tip). */
export type Reach = Readonly<Record<Limb, 0 | 1 | 3>>;

/**
 * Returns the part of each pixel of a person: the one whose bones are nearest on a path that stays inside the
 * person and avoids edges.
 * @param matte share of the person in each pixel
 * @param luma brightness of the picture on the same grid
 */
export function segment(matte: Plane, luma: Plane, skeleton: Skeleton, reach: Reach): Uint8Array {
  const { width, height } = matte;
  const count = width * height;
  const labels = new Uint8Array(count).fill(NOBODY);
  const cost = new Float64Array(count).fill(Infinity);
  const queue = new Queue(count);
  const { size } = skeleton;
  const radii = [0.34 * size, ...LIMBS.map((limb) => LIMB_RADIUS[limb] * size)];
  const seed = (i: number, label: number, at: number): void => {
    if ((matte.data[i] as number) < 0.5 || (cost[i] as number) <= at) return;
    cost[i] = at;
    labels[i] = label;
    queue.push(i, at);
  };
  const bones = LIMBS.map((limb) => bonesOf(skeleton, limb, reach[limb]));
  const torso = plane(width, height);
  fillPolygon(torso, torsoOutline(skeleton, 0.86));
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const i = y * width + x;
      if ((matte.data[i] as number) < 0.5) continue;
      const p = { x: x + 0.5, y: y + 0.5 };
      let nearArm = Infinity;
      bones.forEach((list, l) => {
        for (const [a, b] of list) {
          const { distance } = toSegment(p, a, b);
          if (l < 2) nearArm = Math.min(nearArm, distance);
          if (distance < 0.02 * size + 0.7) seed(i, 1 + l, l < 2 ? 0 : 0.2);
        }
      });
      if ((torso.data[i] as number) > 0.5 && nearArm > 0.9 * LIMB_RADIUS.leftArm * size) seed(i, TRUNK, 0.3);
      const head = Math.min(
        toSegment(p, skeleton.shoulders, skeleton.head).distance,
        Math.hypot(p.x - skeleton.head.x, p.y - skeleton.head.y) - 0.2 * size,
      );
      if (head < 0.05 * size) seed(i, TRUNK, 0.1);
    }
  }
  for (let i = queue.pop(); i >= 0; i = queue.pop()) {
    const label = labels[i] as number;
    const from = cost[i] as number;
    const x = i % width;
    const y = (i - x) / width;
    const per = 1 / (radii[label] as number);
    for (let dy = -1; dy <= 1; dy++) {
      for (let dx = -1; dx <= 1; dx++) {
        const [nx, ny] = [x + dx, y + dy];
        if ((dx === 0 && dy === 0) || nx < 0 || ny < 0 || nx >= width || ny >= height) continue;
        const n = ny * width + nx;
        if ((matte.data[n] as number) < 0.1) continue;
        const step = dx !== 0 && dy !== 0 ? Math.SQRT2 : 1;
        const edge = Math.abs((luma.data[n] as number) - (luma.data[i] as number));
        const next = from + step * per + EDGE_COST * edge;
        if (next >= (cost[n] as number)) continue;
        cost[n] = next;
        labels[n] = label;
        queue.push(n, next);
      }
    }
  }
  return labels;
}

/** Returns the bones of a limb, starting a little outside the trunk. */
export function bonesOf(skeleton: Skeleton, limb: Limb, reach: 0 | 1 | 3): (readonly [Vec, Vec])[] {
  if (reach === 0) return [];
  const [a, b, c, d] = skeleton.limbs[limb];
  const first = [mix(a, b, limb.endsWith('Arm') ? 0.22 : 0.42), b] as const;
  return reach === 1 ? [first] : [first, [b, c], [c, add(c, times(sub(d, c), 1.3))]];
}

/** Returns the corners of the torso, x and y in turn, narrowed by a factor. */
export function torsoOutline({ hips, shoulders, hipSide, shoulderSide }: Skeleton, width: number): number[] {
  const up = times(sub(shoulders, hips), 0.04);
  const corners = [
    add(add(shoulders, up), times(shoulderSide, width)),
    add(add(shoulders, up), times(shoulderSide, -width)),
    add(sub(hips, up), times(hipSide, -1.5 * width)),
    add(sub(hips, up), times(hipSide, 1.5 * width)),
  ];
  return corners.flatMap(({ x, y }) => [x, y]);
}

/** A binary heap of pixels by cost. A pixel whose cost was lowered is in it twice; its second turn has no effect. */
class Queue {
  readonly #items: number[] = [];
  readonly #costs: number[] = [];
  readonly #done: Uint8Array;

  constructor(count: number) {
    this.#done = new Uint8Array(count);
  }

  push(item: number, cost: number): void {
    const [items, costs] = [this.#items, this.#costs];
    let at = items.length;
    items.push(item);
    costs.push(cost);
    while (at > 0) {
      const up = (at - 1) >> 1;
      if ((costs[up] as number) <= cost) break;
      items[at] = items[up] as number;
      costs[at] = costs[up] as number;
      at = up;
    }
    items[at] = item;
    costs[at] = cost;
  }

  /** Removes and returns the cheapest remaining pixel; -1 when there is none. */
  pop(): number {
    const [items, costs] = [this.#items, this.#costs];
    while (items.length > 0) {
      const first = items[0] as number;
      const item = items.pop() as number;
      const cost = costs.pop() as number;
      const count = items.length;
      for (let at = 0; count > 0; ) {
        let down = 2 * at + 1;
        if (down + 1 < count && (costs[down + 1] as number) < (costs[down] as number)) down++;
        if (down >= count || (costs[down] as number) >= cost) {
          items[at] = item;
          costs[at] = cost;
          break;
        }
        items[at] = items[down] as number;
        costs[at] = costs[down] as number;
        at = down;
      }
      if (this.#done[first] === 1) continue;
      this.#done[first] = 1;
      return first;
    }
    return -1;
  }
}
