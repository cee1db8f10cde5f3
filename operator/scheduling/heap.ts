/** Binary heap: the least item first, in O(log n). */
export interface Heap<T> {
  push(item: T): void;
  /** Takes the least item out. */
  pop(): T | undefined;
  readonly size: number;
}

export function createHeap<T>(compare: (a: T, b: T) => number, items: readonly T[] = []): Heap<T> {
  const heap = [...items];
  for (let i = (heap.length >> 1) - 1; i >= 0; i--) sink(i);

  function swap(i: number, j: number): void {
    const item = heap[i] as T;
    heap[i] = heap[j] as T;
    heap[j] = item;
  }

  function sink(from: number): void {
    for (let i = from; ; ) {
      let least = i;
      for (const child of [2 * i + 1, 2 * i + 2]) {
        if (child < heap.length && compare(heap[child] as T, heap[least] as T) < 0) least = child;
      }
      if (least === i) return;
      swap(i, least);
      i = least;
    }
  }

  return {
    push(item) {
      heap.push(item);
      for (let i = heap.length - 1; i > 0; ) {
        const parent = (i - 1) >> 1;
        if (compare(heap[i] as T, heap[parent] as T) >= 0) return;
        swap(i, parent);
        i = parent;
      }
    },
    pop() {
      const least = heap[0];
      const last = heap.pop();
      if (heap.length > 0) {
        heap[0] = last as T;
        sink(0);
      }
      return least;
    },
    get size() {
      return heap.length;
    },
  };
}
