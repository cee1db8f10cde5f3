import type { Size, VideoFrame, VideoWriter } from '../../../media/types.ts';
import { evenRect, regionToRgb, rgbToRegion } from '../../../media/yuv.ts';
import { prepareSource, type SourceFace } from '../swap/source-face.ts';
import { swapFace } from '../swap/swap-face.ts';
import type { Face } from '../vision/face-mesh.ts';
import type { Picture } from '../vision/picture.ts';
import { type Colors, extent, placed } from './frame-part.ts';
import type { FaceTracker } from './tracker.ts';

export interface SwapFramesOptions {
  readonly source: { readonly picture: Picture; readonly face: Face };
  readonly colors: Colors;
  readonly size: Size;
  readonly writer: Pick<VideoWriter, 'write'>;
  readonly checkpoint: () => void;
}

/** Draws the swaps of frames whose faces are known and writes them in order. */
export class SwapFrames {
  readonly #options: SwapFramesOptions;
  #prepared: SourceFace | undefined;
  /** Frames with a swap, and the most faces swapped in one frame. */
  swapped = 0;
  mostFaces = 0;

  constructor(options: SwapFramesOptions) {
    this.#options = options;
  }

  async add(frames: readonly VideoFrame[], tracker: FaceTracker): Promise<void> {
    const { writer, checkpoint } = this.#options;
    for (const frame of frames) {
      checkpoint();
      const faces = tracker.facesIn(frame.index);
      for (const { face, opacity } of faces) this.#draw(frame, face, opacity);
      if (faces.length > 0) this.swapped++;
      this.mostFaces = Math.max(this.mostFaces, faces.length);
      await writer.write(frame);
    }
  }

  async finish(): Promise<void> {}

  close(): void {}

  #draw(frame: VideoFrame, face: Face, opacity: number): void {
    const { source, colors } = this.#options;
    this.#prepared ??= prepareSource(source.picture, source.face, face.width);
    const { left, top, right, bottom } = extent(face.points);
    const margin = 0.1 * face.width;
    const rect = evenRect(
      {
        x: left - margin,
        y: top - margin,
        width: right - left + 2 * margin,
        height: bottom - top + 2 * margin,
      },
      frame,
    );
    if (rect.width < 16 || rect.height < 16) return;
    const picture = regionToRgb(frame, rect, colors);
    const before = picture.data.slice();
    swapFace(picture, placed(face, -rect.x, -rect.y, 1), this.#prepared);
    const mask = new Uint8Array(rect.width * rect.height);
    for (let i = 0; i < mask.length; i++) {
      const same =
        before[i * 3] === picture.data[i * 3] &&
        before[i * 3 + 1] === picture.data[i * 3 + 1] &&
        before[i * 3 + 2] === picture.data[i * 3 + 2];
      mask[i] = same ? 0 : Math.round(255 * opacity);
    }
    rgbToRegion(frame, rect, picture.data, colors, mask);
  }
}
