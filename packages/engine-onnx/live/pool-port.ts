import type { MessagePort } from 'node:worker_threads';
import { describeError } from '@semblance/common/errors';
import type { FloatTensors, ToSession } from '../sessions/protocol.ts';
import type { RunsModels } from '../stages/models.ts';

type Answer =
  | { readonly id: number; readonly outputs: FloatTensors }
  | { readonly id: number; readonly fault: string };

/** Runs models for the thread at the other end of a port, with the pool of this thread. */
export function servePool(pool: RunsModels, port: MessagePort): void {
  port.on('message', async ({ id, model, feeds }: ToSession) => {
    try {
      const outputs = await pool.run(model, feeds);
      port.postMessage({ id, outputs } satisfies Answer, buffersOf(outputs));
    } catch (error) {
      port.postMessage({ id, fault: describeError(error) } satisfies Answer);
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

  /** As `SessionPool.run`, but a request that was sent is not taken back. */
  run(model: string, feeds: FloatTensors): Promise<FloatTensors> {
    const id = ++this.#lastId;
    const waiting = Promise.withResolvers<FloatTensors>();
    this.#waiting.set(id, waiting);
    this.#port.postMessage({ id, model, feeds } satisfies ToSession, buffersOf(feeds));
    return waiting.promise;
  }
}

function buffersOf(tensors: FloatTensors): ArrayBuffer[] {
  return [...new Set(Object.values(tensors).map(({ data }) => data.buffer))];
}
