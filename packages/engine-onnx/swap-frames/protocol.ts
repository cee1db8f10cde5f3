import type { RenderErrorCode } from '@semblance/engine-api/engine';
import type { RenderOptions } from '@semblance/engine-api/option';
import type { ColorTags, VideoFrame } from '@semblance/media/types';
import type { Face } from '@semblance/vision/face-mesh';
import type { Point } from '@semblance/vision/picture';
import type { Identity } from '../face-swap.ts';
import type { FloatTensor } from '../sessions/protocol.ts';
import type { StageReport } from '../stages/models.ts';

/** What the frames of one video have in common. */
export interface FrameSource {
  readonly colors: Pick<ColorTags, 'range' | 'space'>;
  /** The source face; its forms by the names of the swappers. */
  readonly identity: Omit<Identity, 'sources'>;
  readonly sources: readonly (readonly [string, FloatTensor])[];
  /** Options of the render. */
  readonly options: RenderOptions | undefined;
}

/** A face in pixels of a frame, by its mesh and by five points. */
export interface FrameFace {
  readonly face: Face;
  readonly five: readonly Point[];
  /** Share of the new face in the frame. */
  readonly opacity: number;
}

export type FrameWork =
  | { readonly type: 'refine'; readonly frame: WorkFrame; readonly faces: readonly Face[] }
  | { readonly type: 'draw'; readonly frame: WorkFrame; readonly faces: readonly FrameFace[] };

/** A frame in shared memory. */
export type WorkFrame = Pick<VideoFrame, 'width' | 'height' | 'data'>;

export interface FrameDone {
  readonly report: StageReport;
  /** For `refine`: five points of each face in pixels of the frame; undefined where the model is not certain. */
  readonly five?: readonly (readonly Point[] | undefined)[];
}

/** Why a thread could not do it; a code makes it an error of the render. */
export interface FrameFault {
  readonly fault: string;
  readonly code: RenderErrorCode | undefined;
}

export type FrameAnswer = FrameDone | FrameFault;
