import type { Capability } from './capabilities.ts';
import type { Findings } from './findings.ts';
import type { EngineOption, RenderOptions } from './option.ts';
import type { Speech } from './speech.ts';

/**
 * The contract of every engine. proto/semblance/engine/v1 has the same contract for engines that are separate
 * programs, docs/guide/engine-author/engines.md describes it, and the conformance suite checks it.
 */

/** Limits of one input; an absent one means no limit of the engine's own. Exceeding a limit is `input_too_large`. */
export interface EngineLimits {
  /** The agent enforces it: it does not fetch a larger file to its end. */
  readonly maxInputBytes?: number;
  /** Pixels of a picture, or of one frame. */
  readonly maxPixels?: number;
  /** Length of video or sound. */
  readonly maxSeconds?: number;
}

/** A capability of an engine, and its cost on the node. */
export interface EngineCapability {
  readonly capability: Capability;
  /** Slots that one render occupies while it runs. */
  readonly slots: number;
  /** Peak resident memory of one render, in MiB. */
  readonly memoryMib: number;
  /** Peak memory of one render on the card, beside what the engine holds there, in MiB; absent: none. */
  readonly vramMib?: number;
  readonly limits?: EngineLimits;
  /** Whether it takes several pictures of the person whose face is put in; otherwise it gets the first. */
  readonly severalFaces?: boolean;
  /** Whether a render takes a mapping of people (people.ts); otherwise it gets no job with one. */
  readonly mapsFaces?: boolean;
  /** Whether it reads pictures as JPEG, PNG and WebP alone; otherwise it gets them as they were sent. */
  readonly plainPictures?: boolean;
  /** What a render may be told beyond its parameters; absent: nothing. */
  readonly options?: readonly EngineOption[];
  /** Of `avatar`: its voices and languages; absent: nothing is known of them, and none is refused at the submit. */
  readonly speech?: Speech;
}

/** A capability that the engine cannot offer because a program is missing on its machine. */
export interface UnavailableCapability {
  readonly capability: Capability;
  /** What is missing, for the person who runs the machine. */
  readonly message: string;
}

/** One piece of work. Paths are local files; the agent has already fetched the inputs. */
export interface RenderRequest {
  readonly capability: Capability;
  /** Input role (for Photo Swap: `image`, `face`) → path of the fetched file. */
  readonly inputs: Readonly<Record<string, string>>;
  /** Validated, capability-specific settings, all strings as in the RenderJob. */
  readonly parameters: Readonly<Record<string, string>>;
  /** Checked against the capability's `options`; those that are left out have their default. */
  readonly options?: RenderOptions;
  /** Existing, empty, private directory. The engine writes its output inside and nothing outside. */
  readonly outputDir: string;
  /** Aborted on cancel or loss of the Lease: the render must end within 1 s. */
  readonly signal: AbortSignal;
  readonly onProgress: OnProgress;
}

/**
 * @param fraction done, in [0, 1]; never decreases
 * @param stage the current stage
 * @param secondsLeft estimate of the remaining time; by default it is computed from the fraction
 */
export type OnProgress = (fraction: number, stage: string, secondsLeft?: number) => void;

export interface RenderStage {
  readonly name: string;
  readonly milliseconds: number;
  /** Engine that ran the stage, if it is not the requested one. */
  readonly engine?: string;
}

/** Result of a finished render. Units are measured on the output, never on the input. */
export interface RenderResult {
  readonly outputPath: string;
  readonly contentType: string;
  /** Billing units of the output: images, or seconds (to the millisecond) of video or sound. */
  readonly units: { readonly unit: 'image' | 'second'; readonly quantity: number };
  readonly stages: readonly RenderStage[];
  /** Facts for the agent's log, such as `faces: 2`. */
  readonly details: Readonly<Record<string, string | number>>;
  /** For the job's owner; absent when the engine finds out nothing. */
  readonly findings?: Findings;
}

/** Pictures to be looked at before a render is submitted. */
export interface InspectRequest {
  readonly capability: Capability;
  /** As in {@link RenderRequest}, but only the inputs that are pictures. */
  readonly inputs: Readonly<Record<string, string>>;
  readonly parameters: Readonly<Record<string, string>>;
  /** Asks for the people of the one input, `image` or `video`, in place of what a render would find out. */
  readonly people?: true;
  /** Asks for a preview in place of what a render would find out; see {@link Engine.previewsSwaps}. */
  readonly preview?: PreviewMoment;
  /** Aborted when nobody waits any more: the inspection must end within 1 s. */
  readonly signal: AbortSignal;
}

/** Largest width and height of a preview, in pixels. */
export const PREVIEW_SIDE = 512;

/** The frame of a video that a preview shows: near this time, in microseconds. Of a picture it does not count. */
export interface PreviewMoment {
  readonly atUs: number;
}

export interface Engine {
  readonly name: string;
  readonly version: string;
  readonly capabilities: readonly EngineCapability[];
  /**
   * Known after the warm-up and shown in the agent's status. An engine that is a separate program logs it instead.
   */
  readonly unavailable?: readonly UnavailableCapability[];
  /** Whether its inspections find the people of a picture or video. */
  readonly findsPeople?: boolean;
  /** Whether its inspections of `face-swap-image` and `face-swap` answer a preview. Their inputs are then all of a render. */
  readonly previewsSwaps?: boolean;
  /** Number of renders that it runs at once; absent: as many as it is given. Known after the warm-up. */
  readonly concurrency?: number;
  /** Memory on the card that it holds with its models, in MiB, if it knows. Known after the warm-up. */
  readonly vramMib?: number;
  /** Resolves with the reason when the engine can never render again; its process ends and another one is started. */
  readonly ended?: Promise<string>;
  /** Loads models and runs each once, so that the first render is as fast as the next. Idempotent. */
  warmUp(signal: AbortSignal): Promise<void>;
  /**
   * @throws RenderError with a job error code; EngineInterruptedError when another try may succeed; any other error
   *   counts as `processing_failed`
   */
  render(request: RenderRequest): Promise<RenderResult>;
  /**
   * Returns what a render would find out about its pictures, and writes nothing. Absent: the engine does not look.
   * @throws as `render`; a RenderError tells why a render of these pictures would fail
   */
  inspect?(request: InspectRequest): Promise<Findings>;
  close(): Promise<void>;
}

/** Error codes of a failed job; fixed by the public API. */
export const RENDER_ERROR_CODES = [
  'face_not_detected',
  'unsupported_format',
  'input_too_large',
  'content_rejected',
  'processing_failed',
] as const;

export type RenderErrorCode = (typeof RENDER_ERROR_CODES)[number];

/** A render failed for a reason that its owner should read; `message` is shown to the caller. */
export class RenderError extends Error {
  override readonly name = 'RenderError';
  readonly code: RenderErrorCode;
  /** What was found out before; absent when that is nothing. */
  readonly findings?: Findings;

  constructor(
    code: RenderErrorCode,
    message: string,
    options?: ErrorOptions & { readonly findings?: Findings | undefined },
  ) {
    super(message, options);
    this.code = code;
    if (options?.findings) this.findings = options.findings;
  }
}

/** A temporary fault, and not the input, ended a render: another try may succeed. */
export class EngineInterruptedError extends Error {
  override readonly name = 'EngineInterruptedError';
  readonly code = 'engine_interrupted';
  readonly retryable = true;
}
