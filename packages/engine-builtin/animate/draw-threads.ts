import { FrameThreads } from '../pool/frame-threads.ts';
import type { PortraitData, Pose } from './portrait.ts';

/** A frame whose memory moves with the message. */
export type SentFrame = Uint8Array<ArrayBuffer>;

export interface PoseToDraw {
  readonly pose: Pose;
  /** An earlier frame of the same portrait, whose memory is drawn over. */
  readonly into: SentFrame | undefined;
}

let shared: DrawThreads | undefined;

/**
 * Returns the threads that draw portraits while another thread tracks a driver; each rendering thread makes them
 * once.
 */
export function drawThreads(): DrawThreads {
  shared ??= new DrawThreads();
  return shared;
}

export class DrawThreads extends FrameThreads<PortraitData, PoseToDraw, SentFrame> {
  constructor() {
    super(new URL('./draw-thread.ts', import.meta.url));
  }

  /** @param into an earlier frame of the same portrait, whose memory is given away */
  draw(render: number, pose: Pose, into: SentFrame | undefined): Promise<SentFrame> {
    return this.ask(render, { pose, into }, into ? [into.buffer] : []);
  }
}
