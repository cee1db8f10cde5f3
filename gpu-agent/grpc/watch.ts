import type { ServerWritableStream } from '@grpc/grpc-js';

export interface WatchedThings<Ref, Response> {
  /** Returns everything held. */
  snapshot(): Response;
  /** Returns the changed things that are still held; undefined when none is. */
  changes(refs: Ref[]): Response | undefined;
  keyOf(ref: Ref): string;
  /** Returns the function that unsubscribes. */
  subscribe(listener: (ref: Ref) => void): () => void;
}

/**
 * Sends everything held, then changes. While the caller does not read, only the names of changed things are kept,
 * each once. Their latest state is sent when it reads again, so the things held bound the memory.
 * @returns the function that stops it, without ending the call
 */
export function streamChanges<Request, Ref, Response>(
  call: ServerWritableStream<Request, Response>,
  things: WatchedThings<Ref, Response>,
  onEnd: () => void,
): () => void {
  const changed = new Map<string, Ref>();
  let blocked = false;
  let scheduled = false;
  let ended = false;

  const flush = () => {
    scheduled = false;
    if (blocked || ended || changed.size === 0) return;
    const message = things.changes([...changed.values()]);
    changed.clear();
    if (message) blocked = !call.write(message);
  };
  const unsubscribe = things.subscribe((ref) => {
    changed.set(things.keyOf(ref), ref);
    if (scheduled || blocked) return;
    // Changes of one turn travel in one message.
    scheduled = true;
    queueMicrotask(flush);
  });
  const stop = () => {
    if (ended) return;
    ended = true;
    unsubscribe();
    onEnd();
  };
  call.on('drain', () => {
    blocked = false;
    flush();
  });
  call.on('cancelled', stop);
  call.on('close', stop);
  call.on('error', stop);
  blocked = !call.write(things.snapshot());
  return stop;
}
