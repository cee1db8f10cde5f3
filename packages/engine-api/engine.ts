import type { Capability } from './capabilities.ts';

/**
 * States what every engine keeps to. proto/semblance/engine/v1 says the same to engines that are programs of their
 * own, and docs/guide/engine-author/engines.md says it in prose; engines/conformance checks it.
 */

/** Holds what one input may be at most; absent: no limit of the engine's own. Over a limit is `input_too_large`. */
export interface EngineLimits {
  /** Kept by the agent: a larger file is not fetched to its end. */
  readonly maxInputBytes?: number;
  /** Pixels of a picture, or of one frame. */
  readonly maxPixels?: number;
  /** Length of video or sound. */
  readonly maxSeconds?: number;
}

/** Holds what an engine can do for one capability, and what that costs on its node. */
export interface EngineCapability {
  readonly capability: Capability;
  /** Slots one render occupies while it runs. */
  readonly slots: number;
  /** Peak resident memory of one render, MiB. */
  readonly memoryMib: number;
  readonly limits?: EngineLimits;
}

/** Holds what an engine would do, but for want of a program on its machine. */
export interface UnavailableCapability {
  readonly capability: Capability;
  /** States what is missing, for whoever runs the machine. */
  readonly message: string;
}

/** One piece of work. Paths are local files; the agent has fetched the inputs already. */
export interface RenderRequest {
  readonly capability: Capability;
  /** Input role (for Photo Swap: `image`, `face`) → path of the fetched file. */
  readonly inputs: Readonly<Record<string, string>>;
  /** Validated, capability-specific settings, all strings as in the RenderJob. */
  readonly parameters: Readonly<Record<string, string>>;
  /** Existing, empty, private directory; the engine writes its output inside and nothing outside. */
  readonly outputDir: string;
  /** Aborted on cancel or loss of the lease: the render must end within 1 s. */
  readonly signal: AbortSignal;
  readonly onProgress: OnProgress;
}

/**
 * @param fraction done, in [0, 1]; never falls
 * @param stage what is being worked on
 * @param secondsLeft estimate of the time left; without one it is estimated from the fraction
 */
export type OnProgress = (fraction: number, stage: string, secondsLeft?: number) => void;

export interface RenderStage {
  readonly name: string;
  readonly milliseconds: number;
  /** Engine that made the stage, where it is another than the one asked. */
  readonly engine?: string;
}

/** Holds what a finished render produced. Units are measured on the output, never on the input. */
export interface RenderResult {
  readonly outputPath: string;
  readonly contentType: string;
  /** Billing units of the output: images, or seconds (to the millisecond) of video or sound. */
  readonly units: { readonly unit: 'image' | 'second'; readonly quantity: number };
  readonly stages: readonly RenderStage[];
  /** Facts worth keeping beside the result, such as `faces: 2`. */
  readonly details: Readonly<Record<string, string | number>>;
}

export interface Engine {
  readonly name: string;
  readonly version: string;
  readonly capabilities: readonly EngineCapability[];
  /** Known once it is warm; shown in the agent's status. An engine that is a program of its own logs it instead. */
  readonly unavailable?: readonly UnavailableCapability[];
  /** Renders it does at once; absent: as many as it is given. Known once it is warm, like those above. */
  readonly concurrency?: number;
  /** Resolves with the reason when the engine can never render again: its process ends and another is started. */
  readonly ended?: Promise<string>;
  /** Loads models and runs each once, so that the first render is not slower than the next. Idempotent. */
  warmUp(signal: AbortSignal): Promise<void>;
  /**
   * @throws RenderError with a job error code; EngineInterruptedError when another try may succeed; any other error
   *   counts as `processing_failed`
   */
  render(request: RenderRequest): Promise<RenderResult>;
  close(): Promise<void>;
}

/** Codes a failed job can carry; fixed by the public API. */
export const RENDER_ERROR_CODES = [
  'face_not_detected',
  'unsupported_format',
  'input_too_large',
  'content_rejected',
  'processing_failed',
] as const;

export type RenderErrorCode = (typeof RENDER_ERROR_CODES)[number];

/** A render that failed for a reason its owner should read; `message` is shown to the caller. */
export class RenderError extends Error {
  override readonly name = 'RenderError';
  readonly code: RenderErrorCode;

  constructor(code: RenderErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** A render that a fault of the moment ended, not the input: another try may well succeed. */
export class EngineInterruptedError extends Error {
  override readonly name = 'EngineInterruptedError';
  readonly code = 'engine_interrupted';
  readonly retryable = true;
}
