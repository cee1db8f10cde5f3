import type { MessagePort } from 'node:worker_threads';
import { describeError } from '@semblance/common/errors';
import type { RunsModels } from '../stages/models.ts';
import type { FloatTensors, ToSession } from './protocol.ts';

/** A request, or the wish to take one back. */
type Asked = ToSession | { readonly cancelled: number };

type Answer =
  | { readonly id: number; readonly outputs: FloatTensors }
  | { readonly id: number; readonly fault: string };

/** Runs models for the thread at the other end of a port, with the pool of this thread. */
export function servePool(pool: RunsModels, port: MessagePort): void {
  const cancels = new Map<number, AbortController>();
  port.on('message', async (asked: Asked) => {
    if ('cancelled' in asked) return cancels.get(asked.cancelled)?.abort();
    const { id, model, feeds } = asked;
    const cancel = new AbortController();
    cancels.set(id, cancel);
    try {
      const outputs = await pool.run(model, feeds, cancel.signal);
      port.postMessage({ id, outputs } satisfies Answer, buffersOf(outputs));
    } catch (error) {
      port.postMessage({ id, fault: describeError(error) } satisfies Answer);
    } finally {
      cancels.delete(id);
    }
  });
}

/** A pool at the other end of a port, which `servePool` serves. */
export class PortPool implements RunsModels {
  readonly #port: MessagePort;
  readonly #waiting = new Map<number, PromiseWithResolvers<FloatTensors>>();
  #lastId = 0;

  constructor(port: MessagePort) {
    this.#port = port;
    port.on('message', (answer: Answer) => {
      const waiting = this.#waiting.get(answer.id);
      this.#waiting.delete(answer.id);
      if ('outputs' in answer) waiting?.resolve(answer.outputs);
      else waiting?.reject(new Error(answer.fault));
    });
    port.on('close', () => {
      for (const { reject } of this.#waiting.values()) reject(new Error('the models are closed'));
      this.#waiting.clear();
    });
  }

  /** As `SessionPool.run`. */
  run(model: string, feeds: FloatTensors, signal?: AbortSignal): Promise<FloatTensors> {
    if (signal?.aborted) return Promise.reject(signal.reason);
    const id = ++this.#lastId;
    const waiting = Promise.withResolvers<FloatTensors>();
    const onAbort = () => {
      this.#port.postMessage({ cancelled: id } satisfies Asked);
      waiting.reject(signal?.reason);
    };
    signal?.addEventListener('abort', onAbort, { once: true });
    this.#waiting.set(id, waiting);
    this.#port.postMessage({ id, model, feeds } satisfies Asked, buffersOf(feeds));
    return waiting.promise.finally(() => signal?.removeEventListener('abort', onAbort));
  }
}

function buffersOf(tensors: FloatTensors): ArrayBuffer[] {
  return [...new Set(Object.values(tensors).map(({ data }) => data.buffer))];
}
