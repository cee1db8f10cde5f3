import type { RenderResult } from '@semblance/engine-api/engine';
import type { Findings } from '@semblance/engine-api/findings';
import type { InspectWork, RenderWork } from '@semblance/engine-api/render-work';
import type { Media } from '@semblance/media/types';
import type { FaceFinder } from '@semblance/vision/face-finder';
import type { FaceRecogniser } from '@semblance/vision/face-recogniser';
import type { BuiltinSettings } from './settings.ts';

/** Tools that a worker thread gives to its renderer. */
export interface RenderTools {
  readonly finder: FaceFinder;
  /** Recognises people; its network is loaded on the first call. */
  readonly recogniser?: () => Promise<FaceRecogniser>;
  /** Default: the default of each. */
  readonly settings?: BuiltinSettings | undefined;
  /** Decodes and encodes video and sound; created once per thread. */
  readonly media: () => Promise<Media>;
  /** Aborted on cancel. A renderer that does not return to the event loop learns it from `checkpoint` only. */
  readonly signal: AbortSignal;
  /** Throws when the render was cancelled. It is called at least every few tens of milliseconds. */
  readonly checkpoint: () => void;
  readonly onProgress: (fraction: number, stage: string) => void;
}

/**
 * Runs one capability inside a worker thread.
 * @throws RenderError
 */
export type Renderer = (work: RenderWork, tools: RenderTools) => Promise<RenderResult>;

/**
 * Looks at the pictures of one capability inside a worker thread.
 * @throws RenderError as the render would
 */
export type Inspector = (work: InspectWork, tools: RenderTools) => Promise<Findings>;
