import type { Picture } from '@semblance/engine-api/picture';
import type { Plane } from '@semblance/vision/plane/plane';
import type { DecidedBefore, FilmedEyes } from '../swap/shown-features.ts';
import type { SourceOptions } from '../swap/source-face.ts';
import type { FaceDrawing } from './face-drawing.ts';
import type { Colors, Frame } from './frame-part.ts';
import type { FaceTexture } from './texture.ts';

/** The source face as threads receive it. */
export interface SwapSource {
  readonly picture: Picture;
  readonly points: Float32Array;
  readonly score: number;
  readonly options?: SourceOptions;
}

export interface Analysis {
  /** Copied, unless its memory is shared. */
  readonly frame: Frame;
  /** Mesh in pixels of the frame. */
  readonly points: Float32Array;
  /** What the network finds in front of the face; undefined: it was not asked. */
  readonly cover?: Plane | undefined;
  readonly filmed?: FilmedEyes | undefined;
  readonly before?: DecidedBefore | undefined;
  /** Face width in the requested texture. */
  readonly textureWidth: number;
  readonly color: Colors;
}

export interface Drawing {
  /** In shared memory: the thread draws into it. */
  readonly frame: Frame;
  readonly faces: readonly FaceDrawing[];
  readonly color: Colors;
}

export type SwapWork = ({ readonly type: 'analyse' } & Analysis) | ({ readonly type: 'draw' } & Drawing);

/** The texture of an analysis; undefined for a drawing. */
export type SwapAnswer = FaceTexture | undefined;
