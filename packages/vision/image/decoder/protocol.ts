/**
 * What goes to the process that decodes pictures, and back: on standard input a request, on standard output its answer,
 * one at a time. Each begins with two lengths, of a text in JSON and of the bytes after it, as 32 bits little-endian.
 */

/** How a picture is decoded; always upright. */
export interface DecodeRequest {
  readonly type: 'decode';
  /** Largest number of pixels. */
  readonly limit: number;
  readonly space: 'b-w' | 'grey16' | 'srgb' | 'rgb16';
  readonly depth: 'uchar' | 'ushort';
  /** What becomes of opacity: it stays, pixels lose it, they show white behind them, or nothing else is decoded. */
  readonly alpha: 'keep' | 'remove' | 'white' | 'only';
  /** Whether colours stay as they are stored, in the space of the file's own profile. */
  readonly ignoreIcc?: boolean;
  /** Frames of an animation to decode instead, from the first, 0, on: they come below each other, not turned. */
  readonly frames?: { readonly from: number; readonly count: number };
  /** Whether rows are decoded in order, which is faster and needs less memory. */
  readonly sequential?: boolean;
  readonly size?: { readonly width: number; readonly height: number; readonly fit: 'inside' | 'fill' };
}

export type Request = DecodeRequest | { readonly type: 'look' };

/** Properties of a picture that is not decoded. */
export interface PictureLook {
  readonly width: number;
  readonly height: number;
  readonly pages: number;
  /** How long each frame of an animation is shown, in ms. */
  readonly delays?: readonly number[];
  readonly space: string;
  readonly depth: string;
  readonly hasAlpha: boolean;
  /** Colour profile, in base64. */
  readonly icc?: string;
  /** Why its colours cannot be shown as they are meant, as the end of a sentence. */
  readonly fault?: string;
}

export interface Shape {
  readonly width: number;
  readonly height: number;
  readonly channels: number;
}

export type Answer =
  /** Followed by the pixels. */
  | { readonly type: 'pixels'; readonly shape: Shape }
  | { readonly type: 'seen'; readonly look: PictureLook }
  | { readonly type: 'failed'; readonly message: string };
