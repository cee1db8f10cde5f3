import type { RgbImage } from '@semblance/vision/picture';
import { distanceInside, type Plane, plane } from '@semblance/vision/plane/plane';
import { KIND } from './kinds.ts';
import { lookNearby, type Nearby } from './nearby.ts';

/** Which kind a pixel has that is made of several: the highest, in the order of {@link KIND}. */
const PRECEDENCE = [0, 3, 1, 2];
/** Half the side of the patches that are compared, in pixels. */
const HALF = 3;
const AREA = (2 * HALF + 1) ** 2;
/** Number of places that are tried for each pixel at first. */
const TRIED = 300;
/** How much less a patch counts for each pixel that it lies deeper in the hidden part. */
const DEEPER = 1.3;
/**
 * What a source costs besides the difference of the patches: for its colour's squared difference from the mean of
 * what is seen nearby beyond so many deviations of that, and for the squared way to it as a share of the picture's side.
 */
const STRANGE = 1;
const DEVIATIONS = 2;
const FAR = 6000;

/** One resolution of a completion. */
export class Level {
  readonly width: number;
  readonly height: number;
  /** Colours; those of hidden pixels are the present guess. */
  readonly data: Float32Array;
  readonly kinds: Uint8Array;
  readonly #nearby: Nearby;
  /** Hidden pixels, the outermost first. */
  readonly targets: Int32Array;
  /** Pixels around which a whole patch may be copied. */
  readonly centres: Int32Array;
  readonly sources: Int32Array;
  readonly #isCentre: Uint8Array;
  /** Whether all of the patch around a pixel counts. */
  readonly #isWhole: Uint8Array;
  readonly #trust: Float32Array;
  /** The way from a pixel to those of its patch that count. */
  readonly #offsets = new Int32Array(AREA);
  /** Distance between the patch of each hidden pixel and that of its source. */
  readonly #costs: Float32Array;

  constructor({ width, height, data }: RgbImage, kinds: Uint8Array) {
    [this.width, this.height] = [width, height];
    this.data = Float32Array.from(data);
    this.kinds = kinds;
    this.sources = new Int32Array(kinds.length).fill(-1);
    this.#costs = new Float32Array(kinds.length);
    const depth = distanceInside(maskOf(this, KIND.hidden), false).data;
    this.#trust = new Float32Array(kinds.length);
    const inside = distanceInside(maskOf(this, KIND.source)).data;
    this.#isCentre = new Uint8Array(kinds.length);
    this.#isWhole = wholePatches(this);
    const centres: number[] = [];
    const targets: number[] = [];
    for (let i = 0; i < kinds.length; i++) {
      if ((inside[i] as number) > HALF * 1.34) {
        this.#isCentre[i] = 1;
        centres.push(i);
      } else if (kinds[i] === KIND.hidden) targets.push(i);
    }
    this.centres = Int32Array.from(centres);
    for (const i of targets) this.#trust[i] = DEEPER ** -(depth[i] as number);
    // A key has the depth in its upper part and the place in the lower one: plain numbers sort fastest.
    const keys = Float64Array.from(targets, (i) => Math.round(3 * (depth[i] as number)) * kinds.length + i);
    this.targets = Int32Array.from(keys.sort(), (key) => key % kinds.length);
    this.#nearby = lookNearby(this, kinds, this.targets);
  }

  /** Returns the level of half the resolution. */
  halved(): Level {
    const width = this.width >> 1;
    const height = this.height >> 1;
    const data = plane(width * 3, height).data;
    const kinds = new Uint8Array(width * height);
    for (let i = 0; i < kinds.length; i++) {
      const x = i % width;
      const from = 2 * (((i - x) / width) * this.width + x);
      let seen = 0;
      let kind: number = KIND.source;
      for (let k = 0; k < 4; k++) {
        const at = from + (k & 1) + (k >> 1) * this.width;
        const own = this.kinds[at] as number;
        if ((PRECEDENCE[own] as number) > (PRECEDENCE[kind] as number)) kind = own;
        if (own !== KIND.source && own !== KIND.context) continue;
        seen++;
        for (let c = 0; c < 3; c++)
          data[i * 3 + c] = (data[i * 3 + c] as number) + (this.data[at * 3 + c] as number);
      }
      kinds[i] = kind;
      if (seen > 1) for (let c = 0; c < 3; c++) data[i * 3 + c] = (data[i * 3 + c] as number) / seen;
    }
    return new Level({ width, height, data }, kinds);
  }

  /** Chooses the first sources, from the outermost hidden pixel inwards, by what is known around each. */
  peel(): void {
    const kinds = this.kinds.slice();
    for (const i of this.targets) kinds[i] = KIND.ignored;
    const every = Math.ceil(this.centres.length / TRIED);
    for (const target of this.targets) {
      let [least, chosen] = [Infinity, this.centres[0] as number];
      const count = this.#lookAt(target, kinds);
      const consider = (source: number): void => {
        const cost = this.#difference(target, source, least, count);
        if (cost < least) [least, chosen] = [cost, source];
      };
      // A good first choice ends most comparisons early.
      for (const by of [1, this.width, -1, -this.width]) {
        const beside = this.sources[target - by] ?? -1;
        if (beside >= 0 && this.#isCentre[beside + by]) consider(beside + by);
      }
      for (let k = 0; k < this.centres.length; k += every) consider(this.centres[k] as number);
      this.#take(target, chosen);
      kinds[target] = KIND.context;
    }
  }

  startFrom(coarser: Level, random: () => number): void {
    for (const target of this.targets) {
      const x = target % this.width;
      const y = (target - x) / this.width;
      const [u, v] = [Math.min(coarser.width - 1, x >> 1), Math.min(coarser.height - 1, y >> 1)];
      const at = v * coarser.width + u;
      const from = coarser.sources[at] as number;
      const source =
        (2 * Math.floor(from / coarser.width) + (y & 1)) * this.width + 2 * (from % coarser.width) + (x & 1);
      const any = this.centres[Math.floor(random() * this.centres.length)] as number;
      this.#take(target, from >= 0 && this.#isCentre[source] ? source : any);
    }
    this.vote();
  }

  /** Compares each hidden pixel with its source again, after colours changed. */
  measure(): void {
    for (const target of this.targets) {
      this.#costs[target] = this.#difference(target, this.sources[target] as number, Infinity);
    }
  }

  /** Looks for better sources: those of the neighbours, moved along, and others around the present one. */
  search(random: () => number, within: number, backwards: boolean): void {
    const { width, height, sources, kinds } = this;
    const step = backwards ? -1 : 1;
    const last = width * height - 1;
    for (let k = 0; k <= last; k++) {
      const target = backwards ? last - k : k;
      if (kinds[target] !== KIND.hidden) continue;
      const beside = target - step;
      if (kinds[beside] === KIND.hidden) this.#consider(target, (sources[beside] as number) + step);
      const above = beside + step - step * width;
      if (kinds[above] === KIND.hidden) this.#consider(target, (sources[above] as number) + step * width);
      const now = sources[target] as number;
      const x = now % width;
      const y = (now - x) / width;
      for (let reach = within; reach >= 1; reach /= 2) {
        const sx = Math.round(x + reach * (2 * random() - 1));
        const sy = Math.round(y + reach * (2 * random() - 1));
        if (sx >= 0 && sy >= 0 && sx < width && sy < height) this.#consider(target, sy * width + sx);
      }
    }
  }

  /** Gives each hidden pixel the mean of what the patches over it propose. */
  vote(): void {
    const { width, height, data, kinds, sources, targets } = this;
    const trust = this.#trust;
    const out = new Float32Array(targets.length * 3);
    for (let k = 0; k < targets.length; k++) {
      const target = targets[k] as number;
      const x = target % width;
      const y = (target - x) / width;
      let red = 0;
      let green = 0;
      let blue = 0;
      let all = 0;
      const last = Math.min(width - 1, x + HALF);
      const lowest = Math.min(height - 1, y + HALF);
      for (let row = Math.max(0, y - HALF); row <= lowest; row++) {
        for (let over = row * width + Math.max(0, x - HALF); over <= row * width + last; over++) {
          if (kinds[over] !== KIND.hidden) continue;
          const from = ((sources[over] as number) + target - over) * 3;
          const weight = trust[over] as number;
          red += weight * (data[from] as number);
          green += weight * (data[from + 1] as number);
          blue += weight * (data[from + 2] as number);
          all += weight;
        }
      }
      out[k * 3] = red / all;
      out[k * 3 + 1] = green / all;
      out[k * 3 + 2] = blue / all;
    }
    for (let k = 0; k < targets.length; k++) {
      const at = (targets[k] as number) * 3;
      for (let c = 0; c < 3; c++) data[at + c] = out[k * 3 + c] as number;
    }
  }

  #take(target: number, source: number): void {
    this.sources[target] = source;
    for (let c = 0; c < 3; c++) this.data[target * 3 + c] = this.data[source * 3 + c] as number;
  }

  #consider(target: number, source: number): void {
    if (!this.#isCentre[source] || source === this.sources[target]) return;
    const cost = this.#difference(target, source, this.#costs[target] as number);
    if (cost >= (this.#costs[target] as number)) return;
    this.#costs[target] = cost;
    this.sources[target] = source;
  }

  /**
   * Returns the mean squared difference of two patches with the cost of the source, or something above `most` as
   * soon as it exceeds that.
   * @param count of the pixels that were listed of the target's patch; default: all that count are compared
   */
  #difference(target: number, source: number, most: number, count?: number): number {
    const { width, data } = this;
    const { means, squares } = this.#nearby;
    const x = target % width;
    const y = (target - x) / width;
    const sx = source % width;
    const acrossX = (sx - x) / width;
    const acrossY = ((source - sx) / width - y) / width;
    let extra = FAR * (acrossX * acrossX + acrossY * acrossY);
    if (extra > most) return Infinity;
    for (let c = 0; c < 3; c++) {
      const mean = means[target * 3 + c] as number;
      const variance = (squares[target * 3 + c] as number) - mean * mean;
      const by = ((data[source * 3 + c] as number) - mean) ** 2 - DEVIATIONS ** 2 * variance;
      if (by > 0) extra += STRANGE * by;
    }
    if (extra > most) return Infinity;
    const across = (source - target) * 3;
    let limit = (most - extra) * AREA;
    let sum = 0;
    if (count === undefined && this.#isWhole[target]) {
      for (let dy = -HALF; dy <= HALF; dy++) {
        const first = (target + dy * width - HALF) * 3;
        for (let at = first; at < first + 3 * (2 * HALF + 1); at++) {
          const by = (data[at] as number) - (data[at + across] as number);
          sum += by * by;
        }
        if (sum > limit) return Infinity;
      }
      return extra + sum / AREA;
    }
    const offsets = this.#offsets;
    const size = count ?? this.#lookAt(target, this.kinds);
    limit = (most - extra) * size;
    for (let k = 0; k < size; k++) {
      const at = (target + (offsets[k] as number)) * 3;
      const from = at + across;
      const red = (data[at] as number) - (data[from] as number);
      const green = (data[at + 1] as number) - (data[from + 1] as number);
      const blue = (data[at + 2] as number) - (data[from + 2] as number);
      sum += red * red + green * green + blue * blue;
      if (sum > limit) return Infinity;
    }
    return extra + sum / Math.max(1, size);
  }

  /** Lists the pixels that count in the patch around a pixel. @returns their number */
  #lookAt(target: number, kinds: Uint8Array): number {
    const { width, height } = this;
    const x = target % width;
    const y = (target - x) / width;
    const [left, right] = [-Math.min(HALF, x), Math.min(HALF, width - 1 - x)];
    const bottom = Math.min(HALF, height - 1 - y);
    let count = 0;
    for (let dy = -Math.min(HALF, y); dy <= bottom; dy++) {
      for (let dx = left; dx <= right; dx++) {
        const by = dy * width + dx;
        if (kinds[target + by] !== KIND.ignored) this.#offsets[count++] = by;
      }
    }
    return count;
  }
}

/** Marks the pixels whose patch lies in the picture and has nothing to ignore. */
function wholePatches({
  width,
  height,
  kinds,
}: {
  width: number;
  height: number;
  kinds: Uint8Array;
}): Uint8Array {
  const counts = plane(width, height);
  for (let i = 0; i < kinds.length; i++) counts.data[i] = kinds[i] === KIND.ignored ? 0 : 1;
  const apart = distanceInside(counts).data;
  // Chamfer distances are at most 4 % too small, and those along a diagonal at most a third too large.
  const out = new Uint8Array(kinds.length);
  for (let i = 0; i < out.length; i++) out[i] = (apart[i] as number) > HALF * 1.34 ? 1 : 0;
  return out;
}

function maskOf(
  { width, height, kinds }: { width: number; height: number; kinds: Uint8Array },
  kind: number,
): Plane {
  const out = plane(width, height);
  for (let i = 0; i < kinds.length; i++) out.data[i] = kinds[i] === kind ? 1 : 0;
  return out;
}
