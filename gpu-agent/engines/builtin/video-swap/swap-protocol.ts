import type { Picture } from '../vision/picture.ts';
import type { FaceDrawing } from './draw.ts';
import type { Colors } from './frame-part.ts';
import type { FaceTexture } from './texture.ts';

/** The face to put in, as threads are told of it. */
export interface SwapSource {
  readonly picture: Picture;
  readonly points: Float32Array;
  readonly score: number;
}

/** A frame, or part of one, whose memory is handed over. */
export interface SentFrame {
  readonly width: number;
  readonly height: number;
  readonly data: Uint8Array<ArrayBuffer>;
}

export type ToSwapThread =
  | { readonly type: 'begin'; readonly render: number; readonly source: SwapSource }
  | { readonly type: 'end'; readonly render: number }
  | {
      readonly type: 'analyse';
      readonly job: number;
      readonly render: number;
      readonly frame: SentFrame;
      /** Mesh in pixels of the frame. */
      readonly points: Float32Array;
      /** Width of a face in the texture wanted. */
      readonly textureWidth: number;
      readonly color: Colors;
    }
  | {
      readonly type: 'draw';
      readonly job: number;
      readonly frame: SentFrame;
      readonly faces: readonly FaceDrawing[];
      readonly color: Colors;
    };

export type FromSwapThread =
  | { readonly type: 'texture'; readonly job: number; readonly texture: FaceTexture }
  | { readonly type: 'drawn'; readonly job: number; readonly data: Uint8Array<ArrayBuffer> }
  | { readonly type: 'failed'; readonly job: number; readonly message: string };
