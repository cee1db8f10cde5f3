import type { RenderResult } from '@semblance/engine-api/engine';
import type { RenderWork } from '@semblance/engine-api/render-work';
import type { Media } from '@semblance/media/types';
import type { FaceFinder } from '@semblance/vision/face-finder';
import type { FaceRecogniser } from '@semblance/vision/face-recogniser';

/** Holds what a worker thread gives the renderer it runs. */
export interface RenderTools {
  readonly finder: FaceFinder;
  /** Tells people apart; its network is loaded when it is first asked for. */
  readonly recogniser?: () => Promise<FaceRecogniser>;
  /** Decoding and encoding of video and sound; made once for a thread. */
  readonly media: () => Promise<Media>;
  /** Aborted on cancel. A renderer that does not return to the event loop is told by `checkpoint` only. */
  readonly signal: AbortSignal;
  /** Throws when the render was cancelled; called between steps of at most some tens of milliseconds. */
  readonly checkpoint: () => void;
  readonly onProgress: (fraction: number, stage: string) => void;
}

/**
 * Does one capability inside a worker thread.
 * @throws RenderError
 */
export type Renderer = (work: RenderWork, tools: RenderTools) => Promise<RenderResult>;
