/** The nearest of many vectors, sorted by their distance. */
export class Nearest {
  /** Places of the vectors; the first `count` are valid. */
  readonly places: Int32Array;
  /** Their squared distances, or anything that sorts alike. */
  readonly distances: Float64Array;
  count = 0;

  /** @param most number of vectors that are kept */
  constructor(most: number) {
    this.places = new Int32Array(most);
    this.distances = new Float64Array(most);
  }

  /** The distance that the next vector must be below. */
  get limit(): number {
    const most = this.places.length;
    return this.count < most ? Number.POSITIVE_INFINITY : (this.distances[most - 1] as number);
  }

  clear(): void {
    this.count = 0;
  }

  /** Adds a vector whose distance is below the limit. */
  add(place: number, distance: number): void {
    const { distances, places } = this;
    if (this.count < places.length) this.count++;
    let at = this.count - 1;
    for (; at > 0 && (distances[at - 1] as number) > distance; at--) {
      distances[at] = distances[at - 1] as number;
      places[at] = places[at - 1] as number;
    }
    distances[at] = distance;
    places[at] = place;
  }
}
