import { FrameThreads } from '../pool/frame-threads.ts';
import type { PortraitData, Pose } from './portrait.ts';

/** A frame whose memory is handed over. */
export type SentFrame = Uint8Array<ArrayBuffer>;

export interface PoseToDraw {
  readonly pose: Pose;
  /** A frame drawn before of the same portrait, to be drawn over. */
  readonly into: SentFrame | undefined;
}

let shared: DrawThreads | undefined;

/** Threads that draw portraits while another follows a driver; made once for each thread that renders. */
export function drawThreads(): DrawThreads {
  shared ??= new DrawThreads();
  return shared;
}

export class DrawThreads extends FrameThreads<PortraitData, PoseToDraw, SentFrame> {
  constructor(count?: number) {
    super(new URL('./draw-thread.ts', import.meta.url), count);
  }

  /** @param into a frame drawn before of the same portrait, whose memory is given away */
  draw(render: number, pose: Pose, into: SentFrame | undefined): Promise<SentFrame> {
    return this.ask(render, { pose, into }, into ? [into.buffer] : []);
  }
}
