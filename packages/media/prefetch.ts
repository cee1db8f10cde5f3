/** Takes up to `ahead` items before they are asked for. Left early, it leaves its source too. */
export async function* prefetch<T>(source: AsyncGenerator<T>, ahead: number): AsyncGenerator<T> {
  const waiting: Promise<IteratorResult<T>>[] = [];
  const ask = () => {
    const next = source.next();
    // A failure is seen when its turn comes, or not at all when the reader leaves before.
    next.catch(() => {});
    waiting.push(next);
  };
  try {
    for (;;) {
      while (waiting.length <= ahead) ask();
      const item = await (waiting.shift() as Promise<IteratorResult<T>>);
      if (item.done) return;
      yield item.value;
    }
  } finally {
    // Answered only when what was asked for before has come, which needs the source's own end: not waited for.
    source.return(undefined).catch(() => {});
  }
}
