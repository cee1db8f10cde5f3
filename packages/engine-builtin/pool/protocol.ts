import type { EngineInterruptedError, RenderErrorCode, RenderResult } from '@semblance/engine-api/engine';
import type { Findings } from '@semblance/engine-api/findings';
import type { InspectWork, RenderWork } from '@semblance/engine-api/render-work';
import type { Gated } from '@semblance/vision/models/thread-gate';
import type { BuiltinSettings } from '../settings.ts';

/**
 * Messages from the engine to a worker thread. `cancelled` is one 32-bit word, non-zero once the render must stop.
 * A computing thread polls that word; the message `cancel` reaches a thread that waits.
 */
export type ToWorker =
  | (TaskWork & { readonly id: number; readonly cancelled: SharedArrayBuffer })
  | { readonly type: 'cancel'; readonly id: number }
  | { readonly type: 'warm-up'; readonly id: number };

/** What a thread does: a render, or an inspection of its pictures. */
export type TaskWork =
  | { readonly type: 'render'; readonly work: RenderWork }
  | { readonly type: 'inspect'; readonly work: InspectWork };

/** Messages from a worker thread to the engine. Each request is answered by exactly one `done` or `failed`. */
export type FromWorker =
  | { readonly type: 'progress'; readonly id: number; readonly fraction: number; readonly stage: string }
  | { readonly type: 'done'; readonly id: number; readonly result: RenderResult | Findings | null }
  | { readonly type: 'failed'; readonly id: number; readonly error: WorkerFailure };

export interface WorkerFailure {
  /**
   * A job error code or the code of a temporary fault. Undefined means a bug, `cancelled` a render that was told to
   * stop.
   */
  readonly code: RenderErrorCode | EngineInterruptedError['code'] | 'cancelled' | undefined;
  readonly message: string;
  readonly stack: string | undefined;
  /** Of a job error. */
  readonly findings?: Findings | undefined;
}

export interface WorkerOptions extends Gated {
  readonly settings?: BuiltinSettings | undefined;
}
