import { sincTable } from './interpolation.ts';
import type { Kernels } from './kernels/kernels.ts';
import type { Ring } from './ring.ts';

/** Most grains at once; even the longest grains at the shortest distance are fewer. */
const MOST = 40;
/** Number of steps in the table of window rises. */
const STEPS = 1024;
const RISE = Float64Array.from({ length: STEPS + 2 }, (_, i) => 0.5 - 0.5 * Math.cos((Math.PI * i) / STEPS));

/** One period of the voice, cut out around a mark and moved to a new place. Times are samples of the output. */
export interface Grain {
  /** New position of its mark. */
  readonly at: number;
  /** Position of its mark in the sound. */
  readonly mark: number;
  /** Length of the rise before the mark, of the part after it, and of the final fall. */
  readonly rise: number;
  readonly end: number;
  readonly fall: number;
  readonly gain: number;
}

/**
 * The grains that sound at the moment. Each is read at its own speed, which moves the formants: a faster grain is
 * shorter and has a wider spectrum. A grain is read while it sounds, so its end need not exist when it begins.
 */
export class Grains {
  readonly #kernels: Kernels;
  readonly #voice: Ring;
  readonly #speed: number;
  readonly #table: Float32Array;
  readonly #rises: Float64Array;
  readonly #grains: Grain[] = [];

  /**
   * @param voice sound in the memory of the kernels
   * @param speed input samples per output sample
   */
  constructor(kernels: Kernels, voice: Ring, speed: number) {
    this.#kernels = kernels;
    this.#voice = voice;
    this.#speed = speed;
    this.#table = kernels.floatsOf(sincTable(speed));
    this.#rises = kernels.doubles(RISE.length);
    this.#rises.set(RISE);
  }

  get isSounding(): boolean {
    return this.#grains.length > 0;
  }

  add(grain: Grain): void {
    if (this.#grains.length === MOST) throw new RangeError('more grains at once than there can be');
    this.#grains.push(grain);
  }

  /** Adds the sounding grains to `count` samples from number `first` on. `out` lies in the memory of the kernels. */
  render(out: Float64Array, first: number, count: number): void {
    let kept = 0;
    for (const grain of this.#grains) {
      this.#sound(grain, out, first, count);
      if (grain.at + grain.end > first + count) this.#grains[kept++] = grain;
    }
    this.#grains.length = kept;
  }

  #sound({ at, mark, rise, end, fall, gain }: Grain, out: Float64Array, first: number, count: number): void {
    const { data, mask } = this.#voice;
    this.#kernels.run.grain(
      data.byteOffset,
      mask,
      this.#table.byteOffset,
      this.#rises.byteOffset,
      STEPS,
      out.byteOffset,
      first,
      count,
      at,
      mark,
      this.#speed,
      rise,
      end,
      fall,
      gain,
    );
  }
}

/** Returns half a period of a raised cosine, from 0 at 0 to 1 at 1. */
export function risen(x: number): number {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const place = x * STEPS;
  const whole = Math.floor(place);
  const left = RISE[whole] as number;
  return left + (place - whole) * ((RISE[whole + 1] as number) - left);
}
