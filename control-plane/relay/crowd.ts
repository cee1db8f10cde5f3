export interface CrowdOptions {
  /** Most calls under way at once that are no crowd. */
  readonly most: number;
  /**
   * Time for which it still counts as a crowd, in ms. Calls come in batches with hardly any in between, and work
   * that yields to a crowd must not take each gap for its end.
   */
  readonly lingerMs: number;
}

/** Wraps a function so that it tells whether its calls crowd, or did a moment ago. */
export function watchCrowd<Args extends unknown[], Answer>(
  work: (...args: Args) => Promise<Answer>,
  { most, lingerMs }: CrowdOptions,
) {
  let underWay = 0;
  let lastAt = Number.NEGATIVE_INFINITY;
  const look = () => {
    if (underWay > most) lastAt = performance.now();
  };
  return {
    crowded(): boolean {
      look();
      return performance.now() - lastAt <= lingerMs;
    },
    async run(...args: Args): Promise<Answer> {
      underWay++;
      try {
        return await work(...args);
      } finally {
        look();
        underWay--;
      }
    },
  };
}
