import { describeError } from '../errors.ts';
import type { Logger } from '../logging.ts';
import type { Change } from './object-store.ts';

/**
 * Handlers that are told of every change, one after the other. What a handler throws is logged and does not affect
 * others.
 */
export interface Handlers<T> {
  onAdd?(object: T): void;
  onUpdate?(object: T, old: T): void;
  onDelete?(object: T): void;
  /** Called when the first list is in the store and was delivered. */
  onSynced?(): void;
}

export interface HandlerSet<T> {
  add(handlers: Handlers<T>, known: readonly T[], synced?: boolean): void;
  deliver(change: Change<T>): void;
  synced(): void;
}

export function createHandlerSet<T>(logger: Logger): HandlerSet<T> {
  const all: Handlers<T>[] = [];

  function contained(task: () => unknown): void {
    const fail = (error: unknown) => logger.error({ err: error }, `a handler threw: ${describeError(error)}`);
    try {
      // The handler may be async, and its failure must not become an unhandled rejection.
      const result = task();
      if (result instanceof Promise) result.catch(fail);
    } catch (error) {
      fail(error);
    }
  }

  function tell(handlers: Handlers<T>, change: Change<T>): void {
    contained(() => {
      if (change.type === 'add') return handlers.onAdd?.(change.object);
      if (change.type === 'update') return handlers.onUpdate?.(change.object, change.old);
      return handlers.onDelete?.(change.object);
    });
  }

  return {
    add(handlers, known, synced = false) {
      all.push(handlers);
      for (const object of known) tell(handlers, { type: 'add', object });
      if (synced) contained(() => handlers.onSynced?.());
    },
    deliver(change) {
      for (const handlers of all) tell(handlers, change);
    },
    synced() {
      for (const handlers of all) contained(() => handlers.onSynced?.());
    },
  };
}
