import type { VideoFrame } from '@semblance/media/types';
import type { Person } from '@semblance/vision/person';
import type { Colors } from '../video-swap/frame-part.ts';
import type { Character } from './character.ts';

/** Holds what a thread that draws a video is told at its beginning. */
export interface SceneSource {
  /** Its pixels in shared memory. */
  readonly character: Character;
  readonly width: number;
  readonly height: number;
  readonly color: Colors;
  /** One number: not 0 when the render was cancelled. */
  readonly cancelled: SharedArrayBuffer;
}

export type SceneWork =
  /** The next frame of the shot, its pixels in shared memory; another one is drawn if enough were looked at. */
  | {
      readonly type: 'add';
      readonly frame: VideoFrame;
      readonly person: Person | undefined;
      readonly face: Float32Array | undefined;
    }
  /** Draws the oldest frame that waits. */
  | { readonly type: 'next' }
  /** Ends a shot, all of whose frames are drawn. */
  | { readonly type: 'cut' };

export interface SceneAnswer {
  /** Numbers of the frames that are drawn, in their order. */
  readonly done: readonly number[];
  /** Frames so far in which the character stands for the person, and in which its head follows a face. */
  readonly drawn: number;
  readonly faces: number;
}
