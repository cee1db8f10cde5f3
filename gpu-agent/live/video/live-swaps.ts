import { boxOf, drawFace } from '../../engines/builtin/video-swap/draw.ts';
import type { Frame } from '../../engines/builtin/video-swap/frame-part.ts';
import { alike, differs, type Look, lookOf, patchWidth } from '../../engines/builtin/video-swap/keys.ts';
import { preparer } from '../../engines/builtin/video-swap/prepared-source.ts';
import type { SwapSource } from '../../engines/builtin/video-swap/swap-protocol.ts';
import { type FaceTexture, makeTexture } from '../../engines/builtin/video-swap/texture.ts';
import type { PlacedFace } from '../../engines/builtin/video-swap/track.ts';
import type { Face } from '../../engines/builtin/vision/face-mesh.ts';
import type { Rect } from '../../media/yuv.ts';
import { JPEG_COLORS } from './planes.ts';

/** How often it is looked whether a face still looks as it was analysed; and it is analysed again after so long anyway. */
const LOOKED_MS = 800;
const LONGEST_ALIKE_MS = 4800;
/** Time over which the light of an analysis gives way to that of the next. */
const BLEND_MS = 240;
/** Widths of faces that the source is kept ready for. */
const MOST_WIDTHS = 4;

/** What is known of one face that is swapped. */
interface Shown {
  look: Look;
  patch: number;
  /** Where the light comes from that is being left, if it is. */
  from: FaceTexture;
  to: FaceTexture;
  lookedMs: number;
  analysedMs: number;
}

/**
 * Draws the new face onto the faces of a stream. Light, cover and tone are analysed when a face appears, at once when it
 * comes to look different, and now and then; between two analyses the light goes over from one to the other.
 */
export class LiveSwaps {
  readonly #prepared: ReturnType<typeof preparer>;
  #shown = new Map<number, Shown>();

  constructor(source: SwapSource) {
    this.#prepared = preparer(source, MOST_WIDTHS);
  }

  /** @returns the parts of the frame that were drawn into */
  draw(frame: Frame, faces: readonly PlacedFace[], ms: number): Rect[] {
    const shown = new Map<number, Shown>();
    // All are looked at before any is drawn: faces may overlap.
    for (const { track, face } of faces)
      shown.set(track, this.#show(frame, face, this.#shown.get(track), ms));
    this.#shown = shown;
    return faces.map(({ track, face, opacity }) => {
      const { from, to, analysedMs } = shown.get(track) as Shown;
      const share = from === to ? 0 : Math.min(1, (ms - analysedMs) / BLEND_MS);
      drawFace(frame, { points: face.points, width: face.width, opacity, from, to, share }, JPEG_COLORS);
      return boxOf(frame, face);
    });
  }

  #show(frame: Frame, face: Face, known: Shown | undefined, ms: number): Shown {
    const look = lookOf(frame, face);
    const fits = known && known.patch > 0.85 * face.width && known.patch < 1.5 * face.width;
    if (!known || !fits || differs(known.look, look)) {
      const patch = fits ? known.patch : patchWidth(face.width);
      const texture = this.#analyse(frame, face, patch);
      return { look, patch, from: texture, to: texture, lookedMs: ms, analysedMs: ms };
    }
    if (ms - known.lookedMs < LOOKED_MS) return known;
    known.lookedMs = ms;
    if (ms - known.analysedMs < LONGEST_ALIKE_MS && alike(known.look, look)) return known;
    const texture = this.#analyse(frame, face, known.patch);
    return { ...known, look, from: known.to, to: texture, analysedMs: ms };
  }

  #analyse(frame: Frame, face: Face, patch: number): FaceTexture {
    return makeTexture(frame, face, this.#prepared(patch), JPEG_COLORS);
  }
}
