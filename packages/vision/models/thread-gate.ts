import { setTimeout as delay } from 'node:timers/promises';
import { type Worker, workerData } from 'node:worker_threads';

/**
 * State of a thread that runs networks. onnxruntime-node aborts the whole process ("terminate called after throwing
 * an instance of 'Napi::Error'") when a thread ends while it runs a network, loads one, or is itself being loaded;
 * the error cannot be caught. So a caller that ends a thread waits at the gate until the thread does none of it.
 */
export type ThreadGate = Int32Array<SharedArrayBuffer>;

/** Part of a thread's `workerData` that passes its gate. */
export interface Gated {
  readonly gate: ThreadGate;
}

const RUNNING = 0;
const CLOSED = 1;
const LOOK_EVERY_MS = 5;
/** Value of a thread that has ended. */
const ENDED = -1;
/** Longest run of a network in ms. A longer run hangs, so the process may abort. */
const LONGEST_RUN_MS = 60_000;

/** Creates the gate of one thread, which must call `threadStarted`. */
export function createThreadGate(): ThreadGate {
  const gate = new Int32Array(new SharedArrayBuffer(2 * Int32Array.BYTES_PER_ELEMENT));
  Atomics.store(gate, RUNNING, 1);
  return gate;
}

/** Called by a thread when its modules are loaded. From then on the thread can be ended. */
export function threadStarted(gate = ownGate()): void {
  if (gate) Atomics.sub(gate, RUNNING, 1);
}

/** Runs or loads a network, in a thread with or without a gate. Once the gate is closed it never resolves. */
export async function throughGate<T>(run: () => Promise<T>, gate = ownGate()): Promise<T> {
  if (!gate) return run();
  Atomics.add(gate, RUNNING, 1);
  try {
    if (!isClosed(gate)) return await run();
  } finally {
    Atomics.sub(gate, RUNNING, 1);
    // The thread is about to end and must not use its objects any more.
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
