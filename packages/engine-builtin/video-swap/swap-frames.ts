import type { VideoFrame, VideoWriter } from '@semblance/media/types';
import type { FaceFinder } from '@semblance/vision/face-finder';
import type { Face } from '@semblance/vision/face-mesh';
import { frontalness, JawMean } from '../swap/jaw.ts';
import { eachFeature, type FilmedEyes, type ShownFeatures } from '../swap/shown-features.ts';
import { cutOut } from './cut-out.ts';
import type { Openness } from './eyelids.ts';
import { type FrameEyes, FrameEyesReader } from './frame-eyes.ts';
import { type Colors, placed } from './frame-part.ts';
import { alike, differs, type Look, lookOf, patchWidth } from './keys.ts';
import { cropsOfFrame } from './mesh-crop.ts';
import type { SwapSource } from './swap-protocol.ts';
import type { SwapThreads } from './swap-threads.ts';
import type { FaceTexture } from './texture.ts';
import type { PlacedFace } from './track.ts';
import type { FaceTracker } from './tracker.ts';

export interface SwapFramesOptions {
  readonly finder: Pick<FaceFinder, 'coverOf'>;
  readonly threads: SwapThreads;
  readonly source: SwapSource;
  /** Sources of a mapping, by the places that its people name, beginning with `source`. */
  readonly sources?: readonly SwapSource[];
  readonly colors: Colors;
  readonly writer: Pick<VideoWriter, 'write'>;
  readonly checkpoint: () => void;
}

/** A face in an analysed frame. */
interface Key {
  readonly analysed: number;
  /** Last frame that looks like it; the next analysis has a share from here on. */
  readonly index: number;
  readonly look: Look;
  /** Width of the face in the textures from here on. */
  readonly patch: number;
  /** Returns the texture for patches of this width, made on the first request. */
  texture(patch: number): Promise<FaceTexture>;
}

/** A face through its frames. */
export interface TrackSwap {
  readonly frames: number;
  /** How much of each feature was taken from the source, in the mean of the frames. */
  readonly taken: ShownFeatures;
}

/** Frames after which an unchanged face is analysed again. */
const LONGEST_ALIKE = 120;
/** Runs of frames that may be with the threads or the encoder while the next run is tracked. */
const RUNS_AHEAD = 1;

/**
 * Draws the swaps of frames whose faces are known, spread over threads, and writes the frames in order. Light,
 * cover and tone of a face are analysed in its first frame, wherever its look changes, and in the last frame of
 * each run unless it is unchanged. Frames between two analyses interpolate them, so nothing jumps and nothing lags.
 */
export class SwapFrames {
  readonly #options: SwapFramesOptions;
  readonly #sources: readonly SwapSource[];
  /** Number of each source at the threads. */
  readonly #renders: readonly number[];
  readonly #framesOf = new Map<string, number>();
  #keys = new Map<number, Key>();
  #readers = new Map<number, FrameEyesReader>();
  #jaws = new Map<number, JawMean>();
  readonly #taken = new Map<number, { frames: number; taken: ShownFeatures }>();
  #written: Promise<void> = Promise.resolve();
  readonly #runs: Promise<void>[] = [];
  /** Number of frames with a swap, the most faces swapped in one frame, and the number of analyses. */
  swapped = 0;
  mostFaces = 0;
  analyses = 0;

  constructor(options: SwapFramesOptions) {
    this.#options = options;
    this.#sources = options.sources ?? [options.source];
    this.#renders = this.#sources.map((source) => options.threads.begin(source));
  }

  /** Takes a run of frames, whose memory is shared, and draws into it. Waits while too many runs are under way. */
  async add(frames: readonly VideoFrame[], tracker: FaceTracker): Promise<void> {
    this.#options.checkpoint();
    const faces = frames.map((frame) => tracker.facesIn(frame.index));
    const eyes = this.#readEyes(frames, faces);
    const jaws = this.#readJaws(faces.flat());
    const keys = this.#chooseKeys(frames, faces, eyes);
    for (const [i, frame] of frames.entries()) {
      const here = faces[i] ?? [];
      if (here.length > 0) this.swapped++;
      for (const id of new Set(here.flatMap(({ person }) => person?.id ?? [])))
        this.#framesOf.set(id, (this.#framesOf.get(id) ?? 0) + 1);
      this.mostFaces = Math.max(this.mostFaces, here.length);
      const drawn =
        here.length > 0 ? this.#draw(frame, here, { keys, eyes, jaws }) : Promise.resolve(frame.data);
      drawn.catch(() => undefined);
      this.#written = this.#written.then(async () => {
        await this.#options.writer.write({ ptsUs: frame.ptsUs, data: await drawn });
      });
    }
    this.#written.catch(() => undefined);
    this.#runs.push(this.#written);
    while (this.#runs.length > RUNS_AHEAD) await this.#runs.shift();
  }

  async finish(): Promise<void> {
    await this.#written;
  }

  /** The faces that were drawn. */
  get tracks(): readonly TrackSwap[] {
    return [...this.#taken.values()];
  }

  /** Number of frames in which a person of the mapping got a face, by id. */
  get framesOf(): ReadonlyMap<string, number> {
    return this.#framesOf;
  }

  #note(track: number, here: ShownFeatures): void {
    const { frames, taken } = this.#taken.get(track) ?? { frames: 0, taken: here };
    const mean = (of: keyof ShownFeatures) => taken[of] + (here[of] - taken[of]) / (frames + 1);
    this.#taken.set(track, {
      frames: frames + 1,
      taken: eachFeature(mean),
    });
  }

  close(): void {
    for (const render of this.#renders) this.#options.threads.end(render);
  }

  /** Reads the eyes of all faces in a run, frame by frame; what is usual for new faces comes from what the run shows. */
  #readEyes(
    frames: readonly VideoFrame[],
    faces: readonly (readonly PlacedFace[])[],
  ): ReadonlyMap<PlacedFace, FrameEyes> {
    const seen = new Map<number, Openness[]>();
    for (const { track, openness } of faces.flat()) seen.set(track, [...(seen.get(track) ?? []), openness]);
    this.#readers = new Map(
      [...seen].map(([track, open]) => [track, this.#readers.get(track) ?? new FrameEyesReader(open)]),
    );
    const eyes = new Map<PlacedFace, FrameEyes>();
    for (const [i, frame] of frames.entries()) {
      const source = cropsOfFrame(frame, this.#options.colors);
      for (const here of faces[i] ?? [])
        eyes.set(
          here,
          (this.#readers.get(here.track) as FrameEyesReader).next(source, here.face, here.openness),
        );
    }
    return eyes;
  }

  /**
   * Returns the moves of the jaw of all faces in a run. They lead from the mean before the run to the mean with it, so
   * that a jaw never jumps.
   */
  #readJaws(faces: readonly PlacedFace[]): ReadonlyMap<PlacedFace, Float32Array> {
    const moves = new Map<PlacedFace, Float32Array>();
    const jaws = new Map<number, JawMean>();
    for (const track of new Set(faces.map((one) => one.track))) {
      const here = faces.filter((one) => one.track === track);
      const mean = this.#jaws.get(track) ?? new JawMean(this.#sourceOf(here[0] as PlacedFace).points);
      jaws.set(track, mean);
      const before = mean.seen > 0 ? mean.moves : undefined;
      for (const { face } of here) mean.add(face);
      const now = mean.moves;
      const start = before ?? now;
      for (const [i, one] of here.entries()) {
        const share = (i + 1) / here.length;
        const sure = frontalness(one.face);
        moves.set(
          one,
          now.map((to, k) => sure * ((start[k] as number) * (1 - share) + to * share)),
        );
      }
    }
    this.#jaws = jaws;
    return moves;
  }

  /** Returns the analysed frames of each track in a run, in order, including the last one of the run before. */
  #chooseKeys(
    frames: readonly VideoFrame[],
    faces: readonly (readonly PlacedFace[])[],
    eyes: ReadonlyMap<PlacedFace, FrameEyes>,
  ): ReadonlyMap<number, readonly Key[]> {
    const chosen = new Map<number, Key[]>();
    const lastOf = new Map<number, number>();
    for (const [i, here] of faces.entries()) for (const { track } of here) lastOf.set(track, i);
    for (const [i, frame] of frames.entries()) {
      for (const placedFace of faces[i] ?? []) {
        const { track, face } = placedFace;
        let keys = chosen.get(track);
        if (!keys) {
          const before = this.#keys.get(track);
          keys = before ? [before] : [];
          chosen.set(track, keys);
        }
        const last = keys.at(-1);
        const look = lookOf(frame, face);
        if (last && !differs(last.look, look)) {
          if (lastOf.get(track) !== i) continue;
          if (frame.index - last.analysed < LONGEST_ALIKE && alike(last.look, look)) {
            keys.push({ ...last, index: frame.index });
            continue;
          }
        }
        const { closed } = eyes.get(placedFace) as FrameEyes;
        // Frames that follow tell of a face that appears with closed eyes.
        const usual = (this.#readers.get(track) as FrameEyesReader).usual;
        const render = this.#renders[placeOf(placedFace)] as number;
        keys.push(this.#key(frame, face, { look, last, filmed: { blinking: closed, usual }, render }));
      }
    }
    this.#keys = new Map([...chosen].map(([track, keys]) => [track, keys.at(-1) as Key]));
    return chosen;
  }

  #key(
    frame: VideoFrame,
    face: Face,
    { look, last, filmed, render }: { look: Look; last: Key | undefined; filmed: FilmedEyes; render: number },
  ): Key {
    const { finder, threads, colors } = this.#options;
    const part = cutOut(frame, face);
    const cover = finder.coverOf(cropsOfFrame(frame, colors), face);
    cover.catch(() => undefined);
    const made = new Map<number, Promise<FaceTexture>>();
    const fits = last && last.patch > 0.85 * face.width && last.patch < 1.5 * face.width;
    // What the film showed before holds where this frame leaves it open. Only that is kept of the key before: else each
    // key, with its pixels, would be held by the next.
    const before = last
      ?.texture(last.patch)
      .then(({ taken, bearded, overLip, browsKept }) => ({ taken, bearded, overLip, browsKept }));
    before?.catch(() => undefined);
    return {
      analysed: frame.index,
      index: frame.index,
      look,
      patch: fits ? last.patch : patchWidth(face.width),
      texture: (patch) => {
        let texture = made.get(patch);
        if (!texture) {
          this.analyses++;
          texture = Promise.all([cover, before]).then(([found, decided]) =>
            threads.analyse(render, {
              frame: part.frame,
              points: placed(face, -part.x, -part.y, 1).points,
              cover: found,
              filmed,
              before: decided,
              textureWidth: patch,
              color: colors,
            }),
          );
          texture.catch(() => undefined);
          made.set(patch, texture);
        }
        return texture;
      },
    };
  }

  #sourceOf(face: PlacedFace): SwapSource {
    return this.#sources[placeOf(face)] as SwapSource;
  }

  async #draw(
    frame: VideoFrame,
    faces: readonly PlacedFace[],
    {
      keys,
      eyes,
      jaws,
    }: {
      keys: ReadonlyMap<number, readonly Key[]>;
      eyes: ReadonlyMap<PlacedFace, FrameEyes>;
      jaws: ReadonlyMap<PlacedFace, Float32Array>;
    },
  ): Promise<Uint8Array> {
    const drawings = await Promise.all(
      faces.map(async (placedFace) => {
        const { track, face, opacity } = placedFace;
        const all = keys.get(track) ?? [];
        const before = all.findLast(({ index }) => index <= frame.index) ?? (all[0] as Key);
        const after = all.find(({ index }) => index >= frame.index) ?? before;
        const [from, to] = await Promise.all([before.texture(before.patch), after.texture(before.patch)]);
        const share = after === before ? 0 : (frame.index - before.index) / (after.index - before.index);
        this.#note(track, share < 0.5 ? from.taken : to.taken);
        const { points, width } = face;
        const jaw = jaws.get(placedFace) as Float32Array;
        return { points, width, opacity, jaw, ...(eyes.get(placedFace) as FrameEyes), from, to, share };
      }),
    );
    const { threads, colors } = this.#options;
    const { width, height, data } = frame;
    await threads.draw(this.#renders[0] as number, {
      frame: { width, height, data },
      faces: drawings,
      color: colors,
    });
    return data;
  }
}

/** Returns the place of the source that a face gets. */
const placeOf = ({ person }: PlacedFace): number => person?.source ?? 0;
