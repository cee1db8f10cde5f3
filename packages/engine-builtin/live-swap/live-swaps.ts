import type { Rect } from '@semblance/media/yuv';
import type { FaceFinder } from '@semblance/vision/face-finder';
import type { Face } from '@semblance/vision/face-mesh';
import type { Plane } from '@semblance/vision/plane/plane';
import { frontalness, JawMean } from '../swap/jaw.ts';
import { cutOut } from '../video-swap/cut-out.ts';
import { changedBox, drawFace, GAIN_LIMITS } from '../video-swap/draw.ts';
import { type FrameEyes, FrameEyesReader, filmedEyes } from '../video-swap/frame-eyes.ts';
import { type Frame, placed } from '../video-swap/frame-part.ts';
import { alike, type Look, lookOf, moved, patchWidth } from '../video-swap/keys.ts';
import { cropsOfFrame } from '../video-swap/mesh-crop.ts';
import { preparer } from '../video-swap/prepared-source.ts';
import type { SwapSource } from '../video-swap/swap-protocol.ts';
import type { SwapThreads } from '../video-swap/swap-threads.ts';
import { type FaceTexture, makeTexture } from '../video-swap/texture.ts';
import type { PlacedFace } from '../video-swap/track.ts';
import { FaceParts } from './face-parts.ts';
import type { FrameSwaps } from './frame-swaps.ts';
import { JPEG_COLORS } from './planes.ts';

/**
 * Interval at which a face's look is compared with its analysis, and after which it is analysed again anyway, in
 * ms.
 */
const LOOKED_MS = 800;
const LONGEST_ALIKE_MS = 4800;
/** Least time between two background analyses of one face, which take a part of the core from the frames, in ms. */
const AGAIN_MS = 320;
/** Time over which the light of one analysis blends into the next, in ms. */
const BLEND_MS = 240;
/** Number of face widths for which the source is kept prepared. */
const MAX_WIDTHS = 4;
/** Frames until the new jaw is shown whole. */
const SURE_FRAMES = 25;

/** Everything known about one swapped face. */
interface Shown {
  look: Look;
  patch: number;
  /** The previous light, and since when it is being left. */
  from: FaceTexture;
  to: FaceTexture;
  sinceMs: number;
  lookedMs: number;
  analysedMs: number;
  /** An analysis from the other thread that is shown from the next frame on. */
  next: { readonly look: Look; readonly patch: number; readonly texture: FaceTexture } | undefined;
  pending: boolean;
  readonly reader: FrameEyesReader;
  readonly jaw: JawMean;
  /** In the frame that is drawn. */
  eyes: FrameEyes;
}

/**
 * Draws the new face onto the faces of a stream. Light, cover and tone are analysed when a face appears, at once
 * when something comes in front of it or goes (so that nothing is painted over), and when the light goes on or off;
 * this takes the time of several frames. When they change because the face turns, comes nearer or moves through the
 * light, another thread analyses them, and the swap blends from one analysis to the next.
 */
export class LiveSwaps implements FrameSwaps {
  readonly #prepared: ReturnType<typeof preparer>;
  readonly #beside: SwapThreads;
  readonly #render: number;
  readonly #parts: FaceParts;
  readonly #finder: Pick<FaceFinder, 'coverOf'>;
  /** Mesh of the source. */
  readonly #source: Float32Array;
  #shown = new Map<number, Shown>();

  /** @param beside the thread that analyses while frames are drawn */
  constructor(source: SwapSource, beside: SwapThreads, finder: Pick<FaceFinder, 'coverOf'>) {
    this.#finder = finder;
    this.#prepared = preparer(source, MAX_WIDTHS);
    this.#beside = beside;
    this.#render = beside.begin(source);
    this.#source = source.points;
    this.#parts = new FaceParts(source.points);
  }

  async draw(frame: Frame, faces: readonly PlacedFace[], ms: number): Promise<Rect[]> {
    const shown = new Map<number, Shown>();
    // All faces are examined before any is drawn, because faces may overlap.
    for (const { track, face, openness } of faces) {
      const known = this.#shown.get(track);
      const reader = known?.reader ?? new FrameEyesReader();
      const eyes = reader.next(cropsOfFrame(frame, JPEG_COLORS), face, openness);
      const jaw = known?.jaw ?? new JawMean(this.#source);
      jaw.add(face);
      shown.set(track, await this.#show(frame, face, known, { ms, reader, eyes, jaw }));
    }
    this.#shown = shown;
    return faces.map(({ track, face, opacity }) => {
      const { from, to, sinceMs, eyes, jaw } = shown.get(track) as Shown;
      // A mean of few frames trembles.
      const sure = frontalness(face) * Math.min(1, jaw.seen / SURE_FRAMES);
      const share = from === to ? 0 : Math.min(1, (ms - sinceMs) / BLEND_MS);
      const { points, width } = face;
      const moves = jaw.moves.map((move) => move * sure);
      drawFace(frame, { points, width, opacity, jaw: moves, ...eyes, from, to, share }, JPEG_COLORS);
      return changedBox(frame, face);
    });
  }

  close(): void {
    this.#beside.end(this.#render);
  }

  #coverOf(frame: Frame, face: Face): Promise<Plane | undefined> {
    return this.#finder.coverOf(cropsOfFrame(frame, JPEG_COLORS), face);
  }

  async #show(
    frame: Frame,
    face: Face,
    known: Shown | undefined,
    { ms, reader, eyes, jaw }: { ms: number; reader: FrameEyesReader; eyes: FrameEyes; jaw: JawMean },
  ): Promise<Shown> {
    const look = lookOf(frame, face);
    if (known) {
      takeNext(known, ms);
      known.eyes = eyes;
    }
    const fits = known && known.patch > 0.85 * face.width && known.patch < 1.5 * face.width;
    const covered = known ? this.#parts.covered(known.look, look) : 'no';
    if (!known || covered === 'surely' || isOtherLight(known.look, look)) {
      const patch = fits ? known.patch : patchWidth(face.width);
      const cover = await this.#coverOf(frame, face);
      const texture = makeTexture(
        { frame, face, color: JPEG_COLORS, cover, filmed: filmedEyes(eyes), before: known?.to },
        this.#prepared(patch),
      );
      const times = { sinceMs: ms, lookedMs: ms, analysedMs: ms };
      return {
        look,
        patch,
        from: texture,
        to: texture,
        ...times,
        next: undefined,
        pending: false,
        reader,
        eyes,
        jaw,
      };
    }
    if (known.pending || ms - known.analysedMs < AGAIN_MS) return known;
    if (fits && covered === 'no' && !moved(known.look, look)) {
      if (ms - known.lookedMs < LOOKED_MS) return known;
      known.lookedMs = ms;
      if (ms - known.analysedMs < LONGEST_ALIKE_MS && alike(known.look, look)) return known;
    }
    known.analysedMs = ms;
    void this.#analyseBeside(frame, face, look, fits ? known.patch : patchWidth(face.width), known);
    return known;
  }

  async #analyseBeside(frame: Frame, face: Face, look: Look, patch: number, shown: Shown): Promise<void> {
    shown.pending = true;
    try {
      const part = cutOut(frame, face);
      const cover = await this.#coverOf(frame, face);
      const { points } = placed(face, -part.x, -part.y, 1);
      const filmed = filmedEyes(shown.eyes);
      const { taken, bearded, overLip, browsKept } = shown.to;
      const before = { taken, bearded, overLip, browsKept };
      const work = {
        frame: part.frame,
        points,
        cover,
        filmed,
        before,
        textureWidth: patch,
        color: JPEG_COLORS,
      };
      shown.next = { look, patch, texture: await this.#beside.analyse(this.#render, work) };
    } catch (error) {
      // The light stays as it was and is analysed again; the log has the reason.
      console.warn('the light on a face could not be analysed', error);
    } finally {
      shown.pending = false;
    }
  }
}

/** Returns whether the light changed further than a swap follows without a new analysis. */
function isOtherLight(analysed: Look, now: Look): boolean {
  const ratio = now.level / Math.max(1, analysed.level);
  return ratio < GAIN_LIMITS[0] || ratio > GAIN_LIMITS[1];
}

function takeNext(shown: Shown, ms: number): void {
  const { next } = shown;
  if (!next) return;
  // Textures of two sizes cannot be blended.
  shown.from = shown.to.size === next.texture.size ? shown.to : next.texture;
  shown.to = next.texture;
  shown.look = next.look;
  shown.patch = next.patch;
  shown.sinceMs = ms;
  shown.next = undefined;
}
