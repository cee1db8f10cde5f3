import type { VideoFrame } from '@semblance/media/types';
import type { Person } from '@semblance/vision/person';
import type { Plane } from '@semblance/vision/plane/plane';
import type { Colors } from '../video-swap/frame-part.ts';
import type { Character } from './character.ts';

/** What a drawing thread receives at the beginning of a video. */
export interface SceneSource {
  /** Its pixels are in shared memory. */
  readonly character: Character;
  readonly width: number;
  readonly height: number;
  readonly color: Colors;
  /** One number, non-zero when the render was cancelled. */
  readonly cancelled: SharedArrayBuffer;
}

export type SceneWork =
  /**
   * The next frame of the shot, with its pixels in shared memory. It draws a waiting frame if enough were received.
   */
  | {
      readonly type: 'add';
      readonly frame: VideoFrame;
      readonly person: Person | undefined;
      readonly face: Float32Array | undefined;
      /** What is in front of the face. */
      readonly cover: Plane | undefined;
    }
  /** Draws the oldest waiting frame. */
  | { readonly type: 'next' }
  /** Ends a shot whose frames are all drawn. */
  | { readonly type: 'cut' };

export interface SceneAnswer {
  /** Numbers of the drawn frames, in order. */
  readonly done: readonly number[];
  /** Frames so far in which the character replaces the person, and in which its head follows a face. */
  readonly drawn: number;
  readonly faces: number;
}
