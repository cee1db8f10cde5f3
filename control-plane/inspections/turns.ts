import { raceAbort } from '@semblance/common/async/abort';

/** Returns a function that lets those of one name act one after the other. */
export function createTurns() {
  const turns = new Map<string, Promise<void>>();
  return async <T>(name: string, signal: AbortSignal, act: () => Promise<T>): Promise<T> => {
    const before = turns.get(name) ?? Promise.resolve();
    const ended = Promise.withResolvers<void>();
    const mine = before.then(() => ended.promise);
    turns.set(name, mine);
    try {
      await raceAbort(signal, before);
      return await act();
    } finally {
      ended.resolve();
      void mine.then(() => {
        if (turns.get(name) === mine) turns.delete(name);
      });
    }
  };
}
