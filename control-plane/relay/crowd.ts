export interface CrowdOptions {
  /** Calls under way at once that are no crowd yet. */
  readonly most: number;
  /**
   * How long it still counts as one after the last moment of it, in milliseconds. Calls come and go in batches: between
   * two of them hardly any is under way, and what yields to a crowd must not take each gap for its end.
   */
  readonly lingerMs: number;
}

/** The same function, telling whether its calls crowd, or have a moment ago. */
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
