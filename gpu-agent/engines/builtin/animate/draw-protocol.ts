import type { PortraitData, Pose } from './portrait.ts';

/** A frame whose memory is handed over. */
export type SentFrame = Uint8Array<ArrayBuffer>;

export type ToDrawThread =
  | { readonly type: 'begin'; readonly render: number; readonly portrait: PortraitData }
  | { readonly type: 'end'; readonly render: number }
  | {
      readonly type: 'draw';
      readonly job: number;
      readonly render: number;
      readonly pose: Pose;
      /** A frame drawn before of the same portrait, to be drawn over. */
      readonly into: SentFrame | undefined;
    };

export type FromDrawThread =
  | { readonly type: 'drawn'; readonly job: number; readonly frame: SentFrame }
  | { readonly type: 'failed'; readonly job: number; readonly message: string };
