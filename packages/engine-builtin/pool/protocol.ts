import type { EngineInterruptedError, RenderErrorCode, RenderResult } from '@semblance/engine-api/engine';
import type { RenderWork } from '@semblance/engine-api/render-work';
import type { Gated } from '@semblance/vision/models/thread-gate';

/**
 * Holds what the engine tells a worker thread. `cancelled` holds one 32-bit word: not zero once the render must stop.
 * That is seen by a thread that computes; `cancel` is for one that waits.
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

/** Holds what a worker thread tells the engine. Every request is answered by exactly one `done` or `failed`. */
export type FromWorker =
  | { readonly type: 'progress'; readonly id: number; readonly fraction: number; readonly stage: string }
  | { readonly type: 'done'; readonly id: number; readonly result: RenderResult | null }
  | { readonly type: 'failed'; readonly id: number; readonly error: WorkerFailure };

export interface WorkerFailure {
  /**
   * A job error code, or that of a fault of the moment; undefined for a fault of the program; `cancelled` for a render
   * that was told to stop.
   */
  readonly code: RenderErrorCode | EngineInterruptedError['code'] | 'cancelled' | undefined;
  readonly message: string;
  readonly stack: string | undefined;
}

export interface WorkerOptions extends Gated {}
