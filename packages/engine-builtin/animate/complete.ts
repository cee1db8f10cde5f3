import type { RgbImage } from '@semblance/vision/picture';
import { distanceInside, type Plane, plane } from '@semblance/vision/plane/plane';
import { seededRandom } from '../avatar/random.ts';

/** What a pixel is to a completion. */
export const KIND = {
  /** It is seen and may be copied. */
  source: 0,
  /** It is hidden and gets a source. */
  hidden: 1,
  /** It is seen but not copied, because it may show a fringe of what hides the rest. */
  context: 2,
  /** It counts for nothing. */
  ignored: 3,
} as const;

/** Half the side of the patches that are compared, in pixels. */
const HALF = 3;
const AREA = (2 * HALF + 1) ** 2;
/** Side of the coarsest picture, in pixels, and passes over each picture from there on. */
const COARSEST = 64;
const PASSES = [3, 2, 1] as const;
/** Distance, in pixels, within which other sources are looked for once a coarser picture has given the first. */
const NEAR = 8;
/** Least number of places to copy from. */
const LEAST = 60;
/** Number of places that are tried for each pixel at first. */
const TRIED = 900;
/** How much less a patch counts for each pixel that it lies deeper in the hidden part. */
const DEEPER = 1.3;
/**
 * What a source costs besides the difference of the patches: for its colour's squared difference from the mean of
 * what is seen nearby beyond so many deviations of that, and for the squared way to it as a share of the picture's side.
 */
const STRANGE = 1;
const DEVIATIONS = 2;
/** Distance over which that mean reaches, in pixels. */
const SPREAD = 6;
/** Weight in it of what may show a fringe. */
const FRINGED = 0.05;
const FAR = 6000;

/**
 * Finds for each hidden pixel a seen one to copy, such that what is copied looks like the rest of the picture: every
 * patch of it occurs there (Wexler et al. 2007, by the search of Barnes et al. 2009). Stripes, shelves and folds are
 * continued as they are.
 * @param kinds a {@link KIND} for each pixel
 * @returns the index of the source of each hidden pixel, -1 for all others; undefined when too little is seen
 */
export function complete(image: RgbImage, kinds: Uint8Array): Int32Array | undefined {
  const levels = [new Level(image, kinds)];
  for (let last = levels[0] as Level; Math.max(last.width, last.height) > COARSEST; ) {
    last = last.halved();
    // A narrow strip beside a person is no place to copy from in a small picture.
    if (last.centres.length < LEAST) break;
    levels.unshift(last);
  }
  if ((levels[0] as Level).centres.length < LEAST) return undefined;
  const random = seededRandom('completion');
  levels.forEach((level, k) => {
    const coarser = levels[k - 1];
    if (coarser) level.startFrom(coarser, random);
    else level.peel();
    for (let pass = 0; pass < (PASSES[k] ?? 1); pass++) {
      level.measure();
      const reach = k === 0 ? COARSEST / 2 : NEAR;
      level.search(random, reach, false);
      // The finest picture costs most, and little is left to find there.
      if (k < levels.length - 1) level.search(random, reach, true);
      level.vote();
    }
  });
  return (levels.at(-1) as Level).sources;
}

/** One resolution of a completion. */
class Level {
  readonly width: number;
  readonly height: number;
  /** Colours; those of hidden pixels are the present guess. */
  readonly data: Float32Array;
  /** Mean colours, and mean squares of the colours, of what is seen nearest to each hidden pixel. */
  readonly #nearby: Float32Array;
  readonly #squares: Float32Array;
  readonly kinds: Uint8Array;
  /** Hidden pixels, the outermost first. */
  readonly targets: readonly number[];
  /** Pixels around which a whole patch may be copied. */
  readonly centres: readonly number[];
  readonly sources: Int32Array;
  readonly #isCentre: Uint8Array;
  readonly #trust: Float32Array;
  /** Distance between the patch of each hidden pixel and that of its source. */
  readonly #costs: Float32Array;

  constructor({ width, height, data }: RgbImage, kinds: Uint8Array) {
    [this.width, this.height] = [width, height];
    this.data = Float32Array.from(data);
    this.kinds = kinds;
    this.sources = new Int32Array(kinds.length).fill(-1);
    this.#costs = new Float32Array(kinds.length);
    const depth = distanceInside(
      maskOf(this, (kind) => kind === KIND.hidden),
      false,
    );
    this.#trust = depth.data.map((distance) => DEEPER ** -distance);
    const inside = distanceInside(maskOf(this, (kind) => kind === KIND.source));
    this.#isCentre = Uint8Array.from(inside.data, (distance) => (distance > HALF * 1.34 ? 1 : 0));
    const all = Array.from(kinds.keys());
    this.centres = all.filter((i) => this.#isCentre[i]);
    this.targets = all
      .filter((i) => kinds[i] === KIND.hidden)
      .sort((a, b) => (depth.data[a] as number) - (depth.data[b] as number) || a - b);
    this.#nearby = this.#spread(this.data);
    this.#squares = this.#spread(this.data.map((value) => value * value));
  }

  /** Returns values with those of the border spread over the hidden part, from the outermost pixel inwards. */
  #spread(values: Float32Array): Float32Array {
    const { width, height } = this;
    const out = values.slice();
    const weights = { [KIND.source]: 1, [KIND.context]: FRINGED, [KIND.hidden]: 0, [KIND.ignored]: 0 };
    const known = Float32Array.from(this.kinds, (kind) => weights[kind as keyof typeof weights]);
    for (const target of this.targets) {
      const [x, y] = [target % width, Math.floor(target / width)];
      const mean = [0, 0, 0];
      let all = 0;
      for (let dy = -Math.min(SPREAD, y); dy <= Math.min(SPREAD, height - 1 - y); dy++) {
        for (let dx = -Math.min(SPREAD, x); dx <= Math.min(SPREAD, width - 1 - x); dx++) {
          const at = target + dy * width + dx;
          const weight = known[at] as number;
          if (weight === 0) continue;
          for (let c = 0; c < 3; c++) mean[c] = (mean[c] as number) + weight * (out[at * 3 + c] as number);
          all += weight;
        }
      }
      if (all === 0) continue;
      for (let c = 0; c < 3; c++) out[target * 3 + c] = (mean[c] as number) / all;
      known[target] = Math.min(1, all);
    }
    return out;
  }

  /** Returns the level of half the resolution. */
  halved(): Level {
    const width = this.width >> 1;
    const height = this.height >> 1;
    const data = plane(width * 3, height).data;
    const kinds = new Uint8Array(width * height);
    for (let i = 0; i < kinds.length; i++) {
      const from = 2 * (Math.floor(i / width) * this.width + (i % width));
      const four = [from, from + 1, from + this.width, from + this.width + 1];
      const of = (kind: number): number[] => four.filter((at) => this.kinds[at] === kind);
      const order = [KIND.hidden, KIND.ignored, KIND.context, KIND.source] as const;
      kinds[i] = order.find((kind) => of(kind).length > 0) as number;
      const seen = [...of(KIND.source), ...of(KIND.context)];
      for (const at of seen) {
        for (let c = 0; c < 3; c++) {
          data[i * 3 + c] = (data[i * 3 + c] as number) + (this.data[at * 3 + c] as number) / seen.length;
        }
      }
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
      const consider = (source: number): void => {
        const cost = this.#difference(target, source, least, kinds);
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
      const [x, y] = [target % this.width, Math.floor(target / this.width)];
      const [u, v] = [Math.min(coarser.width - 1, x >> 1), Math.min(coarser.height - 1, y >> 1)];
      const from = coarser.sources[v * coarser.width + u] as number;
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
      this.#costs[target] = this.#difference(target, this.sources[target] as number, Infinity, this.kinds);
    }
  }

  /** Looks for better sources: those of the neighbours, moved along, and others around the present one. */
  search(random: () => number, within: number, backwards: boolean): void {
    const { width, height, sources } = this;
    const step = backwards ? -1 : 1;
    const last = width * height - 1;
    for (let k = 0; k <= last; k++) {
      const target = backwards ? last - k : k;
      if (this.kinds[target] !== KIND.hidden) continue;
      for (const by of [step, step * width]) {
        const beside = sources[target - by] ?? -1;
        if (beside >= 0) this.#consider(target, beside + by);
      }
      const now = sources[target] as number;
      const [x, y] = [now % width, Math.floor(now / width)];
      for (let reach = within; reach >= 1; reach /= 2) {
        const sx = Math.round(x + reach * (2 * random() - 1));
        const sy = Math.round(y + reach * (2 * random() - 1));
        if (sx >= 0 && sy >= 0 && sx < width && sy < height) this.#consider(target, sy * width + sx);
      }
    }
  }

  /** Gives each hidden pixel the mean of what the patches over it propose. */
  vote(): void {
    const { width, height, data, kinds, sources } = this;
    const out = new Float32Array(this.targets.length * 3);
    this.targets.forEach((target, k) => {
      const [x, y] = [target % width, Math.floor(target / width)];
      let [red, green, blue, all] = [0, 0, 0, 0];
      for (let dy = -Math.min(HALF, y); dy <= Math.min(HALF, height - 1 - y); dy++) {
        for (let dx = -Math.min(HALF, x); dx <= Math.min(HALF, width - 1 - x); dx++) {
          const over = target + dy * width + dx;
          if (kinds[over] !== KIND.hidden) continue;
          const from = ((sources[over] as number) - dy * width - dx) * 3;
          const weight = this.#trust[over] as number;
          red += weight * (data[from] as number);
          green += weight * (data[from + 1] as number);
          blue += weight * (data[from + 2] as number);
          all += weight;
        }
      }
      out[k * 3] = red / all;
      out[k * 3 + 1] = green / all;
      out[k * 3 + 2] = blue / all;
    });
    this.targets.forEach((target, k) => {
      data.set(out.subarray(k * 3, k * 3 + 3), target * 3);
    });
  }

  #take(target: number, source: number): void {
    this.sources[target] = source;
    this.data.copyWithin(target * 3, source * 3, source * 3 + 3);
  }

  #consider(target: number, source: number): void {
    if (!this.#isCentre[source]) return;
    const cost = this.#difference(target, source, this.#costs[target] as number, this.kinds);
    if (cost >= (this.#costs[target] as number)) return;
    this.#costs[target] = cost;
    this.sources[target] = source;
  }

  /**
   * Returns the mean squared difference of two patches with the cost of the source, or something above `most` as
   * soon as it exceeds that.
   */
  #difference(target: number, source: number, most: number, kinds: Uint8Array): number {
    const { width, height, data } = this;
    const [x, y] = [target % width, Math.floor(target / width)];
    const acrossX = ((source % width) - x) / width;
    const acrossY = (Math.floor(source / width) - y) / width;
    let extra = FAR * (acrossX * acrossX + acrossY * acrossY);
    for (let c = 0; c < 3; c++) {
      const mean = this.#nearby[target * 3 + c] as number;
      const variance = (this.#squares[target * 3 + c] as number) - mean * mean;
      const by = ((data[source * 3 + c] as number) - mean) ** 2 - DEVIATIONS ** 2 * variance;
      if (by > 0) extra += STRANGE * by;
    }
    if (extra > most) return Infinity;
    const [left, right] = [-Math.min(HALF, x), Math.min(HALF, width - 1 - x)];
    const bottom = Math.min(HALF, height - 1 - y);
    let [sum, count] = [0, 0];
    for (let dy = -Math.min(HALF, y); dy <= bottom; dy++) {
      for (let dx = left; dx <= right; dx++) {
        const at = target + dy * width + dx;
        if (kinds[at] === KIND.ignored) continue;
        const from = (source + dy * width + dx) * 3;
        const red = (data[at * 3] as number) - (data[from] as number);
        const green = (data[at * 3 + 1] as number) - (data[from + 1] as number);
        const blue = (data[at * 3 + 2] as number) - (data[from + 2] as number);
        sum += red * red + green * green + blue * blue;
        count++;
      }
      if (sum > (most - extra) * AREA) return Infinity;
    }
    return extra + sum / Math.max(1, count);
  }
}

function maskOf(
  { width, height, kinds }: { width: number; height: number; kinds: Uint8Array },
  is: (kind: number) => boolean,
): Plane {
  const out = plane(width, height);
  for (let i = 0; i < kinds.length; i++) out.data[i] = is(kinds[i] as number) ? 1 : 0;
  return out;
}
