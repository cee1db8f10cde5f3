import { FrameThreads } from '../pool/frame-threads.ts';
import type { Analysis, Drawing, SwapAnswer, SwapSource, SwapWork } from './swap-protocol.ts';
import type { FaceTexture } from './texture.ts';

let shared: SwapThreads | undefined;

/** Returns the threads that share the swaps of frames; each rendering thread makes them once. */
export function swapThreads(): SwapThreads {
  shared ??= new SwapThreads();
  return shared;
}

export class SwapThreads extends FrameThreads<SwapSource, SwapWork, SwapAnswer> {
  /** @param entry file that the threads start with */
  constructor(count?: number, entry = new URL('./swap-thread.ts', import.meta.url)) {
    super(entry, count);
  }

  async analyse(render: number, analysis: Analysis): Promise<FaceTexture> {
    const texture = await this.ask(render, { type: 'analyse', ...analysis });
    if (!texture) throw new Error('a swap thread made no texture');
    return texture;
  }

  /** Draws into the frame itself, whose memory must be shared. */
  async draw(render: number, drawing: Drawing): Promise<void> {
    if (!(drawing.frame.data.buffer instanceof SharedArrayBuffer))
      throw new TypeError('a frame that only this thread can see');
    await this.ask(render, { type: 'draw', ...drawing });
  }
}
