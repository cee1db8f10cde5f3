/** Listeners of one kind of event. */
export interface Listeners<T> {
  tell(event: T): void;
  /** Returns the function that unsubscribes. */
  subscribe(listener: (event: T) => void): () => void;
}

export function createListeners<T>(): Listeners<T> {
  const listeners = new Set<(event: T) => void>();
  return {
    tell(event) {
      for (const listener of listeners) listener(event);
    },
    subscribe(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
  };
}
