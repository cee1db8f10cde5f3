import type { Capability } from '#common/capabilities.ts';

/** What an engine can do for one capability, and what that costs on its node. */
export interface EngineCapability {
  readonly capability: Capability;
  /** Slots one render occupies while it runs. */
  readonly slots: number;
  /** Peak resident memory of one render, MiB. */
  readonly memoryMib: number;
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
  /** Monotonic fraction done in [0, 1] and the stage being worked on. */
  readonly onProgress: (fraction: number, stage: string) => void;
}

export interface RenderStage {
  readonly name: string;
  readonly milliseconds: number;
}

/** What a finished render produced. Units are measured on the output, never on the input. */
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
  /** Loads models and runs each once, so that the first render is not slower than the next. */
  warmUp(signal: AbortSignal): Promise<void>;
  /** @throws RenderError with a job error code; any other error counts as `processing_failed`. */
  render(request: RenderRequest): Promise<RenderResult>;
  close(): Promise<void>;
}

/** Codes a failed job can carry; fixed by the public API. */
export type RenderErrorCode =
  | 'face_not_detected'
  | 'unsupported_format'
  | 'input_too_large'
  | 'content_rejected'
  | 'processing_failed';

/** A render that failed for a reason its owner should read; `message` is shown to the caller. */
export class RenderError extends Error {
  override readonly name = 'RenderError';
  readonly code: RenderErrorCode;

  constructor(code: RenderErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
