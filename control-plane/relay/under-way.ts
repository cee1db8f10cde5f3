/** The same function, telling how many of its calls are under way. */
export function counted<Args extends unknown[], Answer>(work: (...args: Args) => Promise<Answer>) {
  let underWay = 0;
  return {
    underWay: () => underWay,
    async run(...args: Args): Promise<Answer> {
      underWay++;
      try {
        return await work(...args);
      } finally {
        underWay--;
      }
    },
  };
}
