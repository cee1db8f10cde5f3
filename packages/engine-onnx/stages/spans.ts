/** A span of time, in ms of the clock that all threads of the process share. */
export type Span = readonly [from: number, to: number];

/** Spans that are kept apart. Those that come late are later than the oldest of them. */
const KEPT = 256;

/** Reads the clock that all threads of the process share, in ms. */
export function clockMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** The time that spans cover together, however they overlap. They come nearly in order. */
export class Spans {
  /** In order and apart. */
  readonly #spans: Span[] = [];
  /** Time covered by spans that are no longer kept, in ms. */
  #settled = 0;

  add([from, to]: Span): void {
    const spans = this.#spans;
    let first = spans.length;
    while (first > 0 && (spans[first - 1] as Span)[1] >= from) first--;
    let joined: Span = [from, to];
    let end = first;
    for (let next = spans[end]; next && next[0] <= to; next = spans[++end])
      joined = [Math.min(joined[0], next[0]), Math.max(joined[1], next[1])];
    spans.splice(first, end - first, joined);
    if (spans.length > 2 * KEPT) this.#settled += coveredBy(spans.splice(0, KEPT));
  }

  /** The time covered, in ms. */
  get total(): number {
    return this.#settled + coveredBy(this.#spans);
  }

  /** The spans that are kept. */
  get kept(): readonly Span[] {
    return this.#spans;
  }
}

function coveredBy(spans: readonly Span[]): number {
  return spans.reduce((sum, [from, to]) => sum + to - from, 0);
}
