import type { LeftReason } from '@semblance/engine-api/findings';
import type { Picture } from '@semblance/engine-api/picture';
import type { ShownFeatures } from '@semblance/engine-builtin/swap/shown-features';
import { drawnWidth } from '@semblance/engine-builtin/swap/small-face';
import { prepareSource } from '@semblance/engine-builtin/swap/source-face';
import { swapFace } from '@semblance/engine-builtin/swap/swap-face';
import type { FaceFinder } from '@semblance/vision/face-finder';
import { cropsOf, type Face, type FaceMesher } from '@semblance/vision/face-mesh';
import type { Plane } from '@semblance/vision/plane/plane';
import { faceMask } from './face-masks.ts';
import { FacePlaces, type PlacedFace, type SeenFaces } from './face-places.ts';
import type { Step } from './manifest.ts';
import { type FurtherFace, ModelSwap, type Sources, type WorkFace } from './model-swap.ts';
import { restoreFace } from './stages/enhancer.ts';
import type { Models, StageLog } from './stages/models.ts';
import { withinEdge } from './vision/face-mask.ts';
import { type PasteMask, pasteBack } from './vision/paste.ts';

/** The source identity: the forms of the face for swappers, and the face itself for swaps by `builtin`. */
export interface Identity {
  readonly sources: Sources;
  readonly picture: Picture;
  readonly face: PlacedFace;
  /** What is in front of the face, if it has a mesh. */
  readonly cover: Plane | undefined;
}

/** Faces, each with what is in front of it, if it has a mesh. */
interface CoveredFaces {
  readonly faces: readonly PlacedFace[];
  readonly covers: readonly (Plane | undefined)[];
}

export interface FaceSwapParts {
  readonly models: Models;
  readonly finder: FaceFinder;
  readonly mesher: FaceMesher;
  /** What is done to a face, in this order. */
  readonly order: readonly Step[];
}

/** Swaps the faces of pictures, or of the frames of a video, with the available models; `builtin` does the rest. */
export class FaceSwap {
  readonly #parts: FaceSwapParts;
  readonly #models: Models;
  readonly #finder: FaceFinder;
  readonly #swap: ModelSwap;
  readonly #order: readonly Step[];
  readonly places: FacePlaces;

  constructor(parts: FaceSwapParts) {
    const { models, finder, mesher, order } = parts;
    this.#parts = parts;
    this.#models = models;
    this.#finder = finder;
    this.places = new FacePlaces({ models, finder, mesher });
    this.#swap = new ModelSwap(models);
    this.#order = order;
  }

  /** Returns a swap by other models. */
  using(models: Models): FaceSwap {
    return models === this.#models ? this : new FaceSwap({ ...this.#parts, models });
  }

  /** Whether `builtin` swaps, for want of a swapper. */
  get byMesh(): boolean {
    return !this.#models.get('swapper');
  }

  /** Returns a face of a picture as a source identity; undefined when it cannot be one. */
  async identify(
    picture: Picture,
    face: PlacedFace,
    signal: AbortSignal,
    log: StageLog,
    further: readonly FurtherFace[] = [],
  ): Promise<Identity | undefined> {
    if (this.byMesh && !face.mesh) return undefined;
    const cover = await this.coverOf(picture, face, log);
    const sources = await this.#swap.sourcesOf(picture, face.five, signal, log, further);
    return { sources, picture, face, cover };
  }

  /** Returns the faces of a picture that can be changed. */
  async findTargets(picture: Picture, signal: AbortSignal, log: StageLog): Promise<SeenFaces> {
    const { faces, left } = await this.places.look(picture, signal, log);
    if (!this.byMesh) return { faces, left };
    const meshed = faces.filter(({ mesh }) => mesh);
    // The owner's detector sees a face there, of which too little is visible for a mesh.
    const hidden = Array<LeftReason>(faces.length - meshed.length).fill('covered');
    return { faces: meshed, left: [...left, ...hidden] };
  }

  /** Returns faces with what the shipped network finds in front of them. */
  async covered(picture: Picture, faces: readonly PlacedFace[], log: StageLog): Promise<CoveredFaces> {
    const covers: (Plane | undefined)[] = [];
    for (const face of faces) covers.push(await this.coverOf(picture, face, log));
    return { faces, covers };
  }

  /** Returns what it finds in front of one; undefined for a face without a mesh. */
  async coverOf(picture: Picture, { mesh }: PlacedFace, log: StageLog): Promise<Plane | undefined> {
    if (!mesh) return undefined;
    return log.builtin('cover', 'face_cover', () => this.#finder.coverOf(cropsOf(picture), mesh));
  }

  /**
   * Puts an identity onto faces with known places, in place, such as the tracked faces of a video.
   * @returns share of each feature that was taken, of faces that `builtin` swapped
   */
  async swapFaces(
    picture: Picture,
    faces: readonly PlacedFace[],
    identity: Identity,
    signal: AbortSignal,
    log: StageLog,
  ): Promise<readonly ShownFeatures[]> {
    if (faces.length === 0) return [];
    // The owner's network for what is in front says it better, and only `builtin` needs both.
    const asked = this.byMesh || !this.#models.get('occlusion');
    const covered = asked ? await this.covered(picture, faces, log) : { faces, covers: [] };
    let works: readonly WorkFace[] = [];
    for (const [i, face] of faces.entries()) {
      const swapper = this.#models.fitting('swapper', face.width) ?? this.#models.all('swapper').at(-1);
      const mask = await faceMask(this.#models, swapper, picture, face, covered.covers[i], signal, log);
      works = [...works, await this.#swap.keep(picture, { face, swapper, mask }, signal, log)];
    }
    let taken: readonly ShownFeatures[] = [];
    for (const step of this.#order) {
      if (step === 'enhancer') {
        const masks = works.map(({ mask }) => mask);
        await this.enhanceFaces(picture, faces, masks, signal, log);
      } else if (step === 'expression') await this.#swap.restoreExpressions(picture, works, signal, log);
      else if (this.byMesh) taken = await this.swapByMesh(picture, covered, identity, signal, log);
      else works = await this.#swap.swap(picture, works, identity.sources, signal, log);
    }
    await this.#swap.restoreGrain(picture, works, log);
    return taken;
  }

  /** Lets `builtin` put an identity onto faces, in place. @returns share of each feature that was taken */
  async swapByMesh(
    picture: Picture,
    { faces, covers }: CoveredFaces,
    identity: Identity,
    signal: AbortSignal,
    log: StageLog,
  ): Promise<ShownFeatures[]> {
    const { face: own, cover } = identity;
    return log.builtin('swapper', 'mesh', () => {
      const widest = Math.max(...faces.map((face) => drawnWidth((face.mesh as Face).width)));
      const source = prepareSource(identity.picture, own.mesh as Face, widest, { cover });
      return faces.map((face, i) => {
        signal.throwIfAborted();
        return swapFace(picture, face.mesh as Face, source, { cover: covers[i] });
      });
    });
  }

  /** Restores faces where their masks allow it, in place, if there is a model for it. */
  async enhanceFaces(
    picture: Picture,
    faces: readonly PlacedFace[],
    masks: readonly PasteMask[],
    signal: AbortSignal,
    log: StageLog,
  ): Promise<void> {
    const chosen = faces.map(({ width }) => this.#models.fitting('enhancer', width));
    const better = await Promise.all(
      faces.map(async ({ five }, i) => {
        const enhancer = chosen[i];
        return enhancer && log.onnx('enhancer', enhancer, () => restoreFace(enhancer, picture, five, signal));
      }),
    );
    if (!better.some((one) => one)) return;
    await log.own('paste', () => {
      for (const [i, one] of better.entries()) {
        if (!one) continue;
        signal.throwIfAborted();
        const mask = withinEdge(masks[i] as PasteMask, one.transform, one.crop.width);
        const { blend = 1 } = chosen[i]?.options ?? {};
        pasteBack(picture, one.crop, one.transform, mask, blend * (faces[i]?.opacity ?? 1));
      }
    });
  }
}
