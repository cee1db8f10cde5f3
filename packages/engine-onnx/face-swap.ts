import type { LeftReason } from '@semblance/engine-api/findings';
import type { Picture } from '@semblance/engine-api/picture';
import type { ShownFeatures } from '@semblance/engine-builtin/swap/shown-features';
import { prepareSource } from '@semblance/engine-builtin/swap/source-face';
import { swapFace } from '@semblance/engine-builtin/swap/swap-face';
import type { FaceFinder } from '@semblance/vision/face-finder';
import { cropsOf, type Face, type FaceMesher } from '@semblance/vision/face-mesh';
import { type CropTransform, cropRgb, type RgbImage } from '@semblance/vision/picture';
import type { Plane } from '@semblance/vision/plane/plane';
import type { TemplateName } from './contracts/contract.ts';
import { FacePlaces, type PlacedFace, type SeenFaces } from './face-places.ts';
import { restoreFace } from './stages/enhancer.ts';
import { embed, identityFor, readEmap } from './stages/identity.ts';
import { occlusionField, parserField } from './stages/masks.ts';
import type { Models, OpenModel, StageLog } from './stages/models.ts';
import { alignFace } from './vision/align.ts';
import { boxMask, outlineMask, withinCrop, withinEdge, withoutCover } from './vision/face-mask.ts';
import { type PasteMask, pasteBack } from './vision/paste.ts';
import { fromPlanes, toPlanes } from './vision/tensors.ts';

/** The source identity: the swapper's form of the face, and the face itself for swaps by `builtin`. */
export interface Identity {
  readonly vector: Float32Array<ArrayBuffer> | undefined;
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
}

/** Swaps the faces of pictures, or of the frames of a video, with the available models; `builtin` does the rest. */
export class FaceSwap {
  readonly #models: Models;
  readonly #finder: FaceFinder;
  readonly #emap: Float32Array | undefined;
  readonly places: FacePlaces;

  constructor({ models, finder, mesher }: FaceSwapParts) {
    this.#models = models;
    this.#finder = finder;
    this.places = new FacePlaces({ models, finder, mesher });
    const swapper = models.get('swapper');
    this.#emap = swapper && readEmap(swapper);
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
  ): Promise<Identity | undefined> {
    if (this.byMesh && !face.mesh) return undefined;
    const cover = await this.coverOf(picture, face, log);
    if (this.byMesh) return { vector: undefined, picture, face, cover };
    const recogniser = this.#models.need('recogniser');
    const embedding = await log.onnx('recogniser', recogniser, () =>
      embed(recogniser, picture, face.five, signal),
    );
    const vector = await identityFor(this.#models, embedding, this.#emap, signal);
    return { vector, picture, face, cover };
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
    const swapper = this.#models.get('swapper');
    const template = swapper?.traits.template ?? 'ffhq_512';
    const masks: PasteMask[] = [];
    const covered = await this.covered(picture, faces, log);
    for (const [i, face] of faces.entries())
      masks.push(await this.#mask(picture, face, covered.covers[i], template, signal, log));
    let taken: ShownFeatures[] = [];
    if (swapper) await this.#swapByModel(swapper, picture, faces, masks, identity, signal, log);
    else taken = await this.swapByMesh(picture, covered, identity, signal, log);
    await this.enhanceFaces(picture, faces, masks, signal, log);
    return taken;
  }

  async #swapByModel(
    swapper: OpenModel,
    picture: Picture,
    faces: readonly PlacedFace[],
    masks: readonly PasteMask[],
    identity: Identity,
    signal: AbortSignal,
    log: StageLog,
  ): Promise<void> {
    const { template = 'arcface_128', size = 128 } = swapper.traits;
    const vector = identity.vector;
    if (!vector) throw new Error('the identity has no vector for this swapper');
    // All faces run at once, so that a model with a batch takes them in one run.
    const swapped = await log.onnx('swapper', swapper, () =>
      Promise.all(
        faces.map(async (face): Promise<[CropTransform, RgbImage]> => {
          const transform = alignFace(face.five, template, size);
          const target = toPlanes(cropRgb(picture, transform, size, size), swapper.traits);
          const source = { data: vector.slice(), dims: [1, vector.length] };
          return [transform, fromPlanes(await swapper.run({ target, source }, signal), swapper.traits)];
        }),
      ),
    );
    await log.own('paste', () => {
      for (const [i, [transform, crop]] of swapped.entries()) {
        signal.throwIfAborted();
        const mask = withinEdge(masks[i] as PasteMask, transform, size);
        pasteBack(picture, crop, transform, mask, faces[i]?.opacity);
      }
    });
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
      const widest = Math.max(...faces.map((face) => (face.mesh as Face).width));
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
    const enhancer = this.#models.get('enhancer');
    if (!enhancer) return;
    const { blend = 1 } = enhancer.options;
    const better = await log.onnx('enhancer', enhancer, () =>
      Promise.all(faces.map(({ five }) => restoreFace(enhancer, picture, five, signal))),
    );
    await log.own('paste', () => {
      for (const [i, { transform, crop }] of better.entries()) {
        signal.throwIfAborted();
        const mask = withinEdge(masks[i] as PasteMask, transform, crop.width);
        pasteBack(picture, crop, transform, mask, blend * (faces[i]?.opacity ?? 1));
      }
    });
  }

  /**
   * Returns where a face may be changed: its outline, without the objects in front of it.
   * @param cover what the shipped network finds there; it is asked where the owner has no network for that
   */
  async #mask(
    picture: Picture,
    face: PlacedFace,
    cover: Plane | undefined,
    template: TemplateName,
    signal: AbortSignal,
    log: StageLog,
  ): Promise<PasteMask> {
    let mask = face.mesh ? outlineMask(face.mesh) : boxMask(alignFace(face.five, template, 256), 256);
    const occlusion = this.#models.get('occlusion');
    if (occlusion) {
      const { transform, field } = await log.onnx('occlusion', occlusion, () =>
        occlusionField(occlusion, picture, { five: face.five, template }, signal),
      );
      mask = withinCrop(mask, transform, field);
    } else if (cover && face.mesh) mask = withoutCover(mask, face.mesh, cover);
    const parser = this.#models.get('parser');
    if (parser) {
      const { transform, field } = await log.onnx('parser', parser, () =>
        parserField(parser, picture, face, signal),
      );
      mask = withinCrop(mask, transform, field);
    }
    return mask;
  }
}
