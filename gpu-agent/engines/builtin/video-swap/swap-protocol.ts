import type { Picture } from '../vision/picture.ts';
import type { FaceDrawing } from './draw.ts';
import type { Colors, Frame } from './frame-part.ts';
import type { FaceTexture } from './texture.ts';

/** The face to put in, as threads are told of it. */
export interface SwapSource {
  readonly picture: Picture;
  readonly points: Float32Array;
  readonly score: number;
}

export type ToSwapThread =
  | { readonly type: 'begin'; readonly render: number; readonly source: SwapSource }
  | { readonly type: 'end'; readonly render: number }
  | {
      readonly type: 'analyse';
      readonly job: number;
      readonly render: number;
      /** Copied, unless its memory is shared. */
      readonly frame: Frame;
      /** Mesh in pixels of the frame. */
      readonly points: Float32Array;
      /** Width of a face in the texture wanted. */
      readonly textureWidth: number;
      readonly color: Colors;
    }
  | {
      readonly type: 'draw';
      readonly job: number;
      /** In shared memory: drawn into as it is. */
      readonly frame: Frame;
      readonly faces: readonly FaceDrawing[];
      readonly color: Colors;
    };

export type FromSwapThread =
  | { readonly type: 'texture'; readonly job: number; readonly texture: FaceTexture }
  | { readonly type: 'drawn'; readonly job: number }
  | { readonly type: 'failed'; readonly job: number; readonly message: string };
