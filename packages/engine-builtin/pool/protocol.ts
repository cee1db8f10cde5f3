import type { EngineInterruptedError, RenderErrorCode, RenderResult } from '@semblance/engine-api/engine';
import type { RenderWork } from '@semblance/engine-api/render-work';
import type { Gated } from '@semblance/vision/models/thread-gate';

/**
 * Messages from the engine to a worker thread. `cancelled` is one 32-bit word, non-zero once the render must stop.
 * A computing thread polls that word; the message `cancel` reaches a thread that waits.
 */
export type ToWorker =
  | {
      readonly type: 'render';
      readonly id: number;
      readonly work: RenderWork;
      readonly cancelled: SharedArrayBuffer;
    }
  | { readonly type: 'cancel'; readonly id: number }
  | { readonly type: 'warm-up'; readonly id: number };

/** Messages from a worker thread to the engine. Each request is answered by exactly one `done` or `failed`. */
export type FromWorker =
  | { readonly type: 'progress'; readonly id: number; readonly fraction: number; readonly stage: string }
  | { readonly type: 'done'; readonly id: number; readonly result: RenderResult | null }
  | { readonly type: 'failed'; readonly id: number; readonly error: WorkerFailure };

export interface WorkerFailure {
  /**
   * A job error code or the code of a temporary fault. Undefined means a bug, `cancelled` a render that was told to
   * stop.
   */
  readonly code: RenderErrorCode | EngineInterruptedError['code'] | 'cancelled' | undefined;
  readonly message: string;
  readonly stack: string | undefined;
}

export interface WorkerOptions extends Gated {
  /** The setting SEMBLANCE_SWAP_LIKENESS; undefined: its default. */
  readonly likeness?: number | undefined;
}
