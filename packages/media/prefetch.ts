/** Takes up to `ahead` items before they are requested. A reader that leaves early also ends the source. */
export async function* prefetch<T>(source: AsyncIterable<T>, ahead: number): AsyncGenerator<T> {
  const items = source[Symbol.asyncIterator]();
  const waiting: Promise<IteratorResult<T>>[] = [];
  const ask = () => {
    const next = items.next();
    // A failure is reported in its turn, or not at all if the reader leaves before.
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
    // This resolves only after pending items, which may need the source's own end, so it is not awaited.
    items.return?.().catch(() => {});
  }
}
