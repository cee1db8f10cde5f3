import { LIP_COLUMNS, LIP_CORNERS, lipColumn } from './lips.ts';

/** The edge of a lip towards the opening, as a height at each place between the corners. */
export class LipEdge {
  readonly left: number;
  readonly right: number;
  readonly middle: number;
  readonly #x: Float32Array;
  readonly #y: Float32Array;

  constructor(lips: Float32Array, which: 'upper' | 'lower') {
    const places = [LIP_CORNERS[2] as number];
    for (let k = 0; k < LIP_COLUMNS; k++) {
      const column = lipColumn(k);
      places.push(which === 'upper' ? column.upperInner : column.lowerInner);
    }
    places.push(LIP_CORNERS[3]);
    this.#x = Float32Array.from(places, (place) => lips[place * 2] as number);
    this.#y = Float32Array.from(places, (place) => lips[place * 2 + 1] as number);
    this.left = this.#x[0] as number;
    this.right = this.#x[places.length - 1] as number;
    this.middle = this.#y[(places.length - 1) / 2] as number;
  }

  at(x: number): number {
    const last = this.#x.length - 1;
    if (x <= this.left) return this.#y[0] as number;
    if (x >= this.right) return this.#y[last] as number;
    let k = 0;
    while (k < last - 1 && x > (this.#x[k + 1] as number)) k++;
    const a = this.#x[k] as number;
    const b = this.#x[k + 1] as number;
    const t = Math.min(1, Math.max(0, (x - a) / Math.max(1e-6, b - a)));
    return (this.#y[k] as number) + ((this.#y[k + 1] as number) - (this.#y[k] as number)) * t;
  }
}
