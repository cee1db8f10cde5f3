import { parentPort, workerData } from 'node:worker_threads';
import { RenderError } from '../../engine.ts';
import { openSession } from '../../models/session.ts';
import { photoSwap } from '../photo-swap.ts';
import { FaceFinder } from '../vision/face-finder.ts';
import type { FromWorker, ToWorker, WorkerFailure, WorkerOptions } from './protocol.ts';
import { warmUp } from './warm-up.ts';

/** Entry of a worker thread: holds the networks and renders one job at a time. */

class CancelledError extends Error {
  override readonly name = 'CancelledError';
}

const port = parentPort;
if (!port) throw new Error('worker.ts runs in a worker thread only');
const { cacheDir } = workerData as WorkerOptions;

let finder: Promise<FaceFinder> | undefined;

function loadFinder(): Promise<FaceFinder> {
  finder ??= Promise.all([openSession('blazeface', cacheDir), openSession('facemesh', cacheDir)]).then(
    ([blazeface, facemesh]) => new FaceFinder({ blazeface, facemesh }),
  );
  return finder;
}

function send(message: FromWorker): void {
  port?.postMessage(message);
}

async function handle(message: ToWorker): Promise<void> {
  const { id } = message;
  try {
    const loaded = await loadFinder();
    if (message.type === 'warm-up') {
      await warmUp(loaded);
      send({ type: 'done', id, result: null });
      return;
    }
    const flag = new Int32Array(message.cancelled);
    const result = await photoSwap(message.job, {
      finder: loaded,
      checkpoint: () => {
        if (Atomics.load(flag, 0) !== 0) throw new CancelledError('the render was cancelled');
      },
      onProgress: (fraction, stage) => send({ type: 'progress', id, fraction, stage }),
    });
    send({ type: 'done', id, result });
  } catch (error) {
    send({ type: 'failed', id, error: describe(error) });
  }
}

function describe(error: unknown): WorkerFailure {
  if (error instanceof CancelledError) return { code: 'cancelled', message: error.message, stack: undefined };
  if (error instanceof RenderError) return { code: error.code, message: error.message, stack: error.stack };
  const { message, stack } = error instanceof Error ? error : new Error(String(error));
  return { code: undefined, message, stack };
}

port.on('message', (message: ToWorker) => void handle(message));
