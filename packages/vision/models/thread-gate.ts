import { setTimeout as delay } from 'node:timers/promises';
import { type Worker, workerData } from 'node:worker_threads';

/**
 * onnxruntime-node cannot bear that a thread is ended while it runs a network, loads one or is itself being loaded:
 * what it then throws nobody can catch, and the whole process aborts ("terminate called after throwing an instance of
 * 'Napi::Error'"), with all that its other threads render. So whoever ends a thread waits at a gate until it does
 * none of it.
 */
export type ThreadGate = Int32Array<SharedArrayBuffer>;

/** Holds what a thread is told of its gate, as a part of its `workerData`. */
export interface Gated {
  readonly gate: ThreadGate;
}

const RUNNING = 0;
const CLOSED = 1;
const LOOK_EVERY_MS = 5;
/** States what a thread that has ended has for a number. */
const ENDED = -1;
/** A network that runs for longer hangs: then its process may as well abort. */
const LONGEST_RUN_MS = 60_000;

/** For one thread, which has to say `threadStarted`. */
export function createThreadGate(): ThreadGate {
  const gate = new Int32Array(new SharedArrayBuffer(2 * Int32Array.BYTES_PER_ELEMENT));
  Atomics.store(gate, RUNNING, 1);
  return gate;
}

/** Said by a thread once its modules are loaded: from now on it can be ended. */
export function threadStarted(gate = ownGate()): void {
  if (gate) Atomics.sub(gate, RUNNING, 1);
}

/** Runs a network, or loads one, in a thread that has a gate or in none. Once the gate is closed it never answers. */
export async function throughGate<T>(run: () => Promise<T>, gate = ownGate()): Promise<T> {
  if (!gate) return run();
  Atomics.add(gate, RUNNING, 1);
  try {
    if (!isClosed(gate)) return await run();
  } finally {
    Atomics.sub(gate, RUNNING, 1);
    // The thread is about to end, and must not do anything with what it has.
    if (isClosed(gate)) await new Promise(() => {});
  }
  return new Promise(() => {});
}

/** Ends a thread as soon as it has started and runs no network. */
export async function endThread(worker: Worker, gate: ThreadGate): Promise<void> {
  Atomics.store(gate, CLOSED, 1);
  const end = performance.now() + LONGEST_RUN_MS;
  const waits = () => worker.threadId !== ENDED && Atomics.load(gate, RUNNING) > 0 && performance.now() < end;
  while (waits()) await delay(LOOK_EVERY_MS);
  await worker.terminate();
}

function ownGate(): ThreadGate | undefined {
  return (workerData as Partial<Gated> | null)?.gate;
}

function isClosed(gate: ThreadGate): boolean {
  return Atomics.load(gate, CLOSED) !== 0;
}
