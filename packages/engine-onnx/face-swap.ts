import type { Picture } from '@semblance/engine-api/picture';
import { prepareSource } from '@semblance/engine-builtin/swap/source-face';
import { swapFace } from '@semblance/engine-builtin/swap/swap-face';
import { type FaceFinder, SUITABLE_SHARE } from '@semblance/vision/face-finder';
import { centroid, type Face, type FaceMesher, pointOf } from '@semblance/vision/face-mesh';
import { FACE_OVAL, LEFT_EYE, RIGHT_EYE } from '@semblance/vision/face-regions';
import { type CropTransform, cropRgb, type Point, type RgbImage } from '@semblance/vision/picture';
import type { TemplateName } from './contracts/contract.ts';
import type { FloatTensors } from './sessions/protocol.ts';
import { detectFaces, type FoundFace } from './stages/detector.ts';
import { embed, identityFor, readEmap } from './stages/identity.ts';
import { refineFive } from './stages/landmarks.ts';
import { occlusionField, parserField } from './stages/masks.ts';
import type { Models, OpenModel, StageLog } from './stages/models.ts';
import { alignFace } from './vision/align.ts';
import { boxMask, outlineMask, withinCrop, withinEdge } from './vision/face-mask.ts';
import { type PasteMask, pasteBack } from './vision/paste.ts';
import { fromPlanes, toPlanes } from './vision/tensors.ts';

const MIN_MESH_SCORE = 0.5;
const NOSE_TIP = 4;
const MOUTH_CORNERS = [61, 291] as const;

/** A face in a picture, with what the stages know about it. */
export interface PlacedFace {
  readonly width: number;
  readonly five: readonly Point[];
  /** Undefined when `builtin` sees no face where the detector does. */
  readonly mesh: Face | undefined;
  /** Share of the new face in the picture; default 1. */
  readonly opacity?: number;
}

/** The source identity: the swapper's form of the face, and the face itself for swaps by `builtin`. */
export interface Identity {
  readonly vector: Float32Array<ArrayBuffer> | undefined;
  readonly picture: Picture;
  readonly face: PlacedFace;
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
  readonly #mesher: FaceMesher;
  readonly #emap: Float32Array | undefined;

  constructor({ models, finder, mesher }: FaceSwapParts) {
    this.#models = models;
    this.#finder = finder;
    this.#mesher = mesher;
    const swapper = models.get('swapper');
    this.#emap = swapper && readEmap(swapper);
  }

  /** Returns the most prominent face of a picture as a source identity; undefined when there is none. */
  async identify(picture: Picture, signal: AbortSignal, log: StageLog): Promise<Identity | undefined> {
    const [face] = await this.findFaces(picture, signal, log);
    if (!face) return undefined;
    if (!this.#models.get('swapper')) return face.mesh && { vector: undefined, picture, face };
    const recogniser = this.#models.need('recogniser');
    const embedding = await log.onnx('recogniser', recogniser, () =>
      embed(recogniser, picture, face.five, signal),
    );
    return { vector: await identityFor(this.#models, embedding, this.#emap, signal), picture, face };
  }

  /** Returns the faces of a picture, the most prominent first, without those much smaller than it. */
  async findFaces(picture: Picture, signal: AbortSignal, log: StageLog): Promise<PlacedFace[]> {
    const detector = this.#models.get('detector');
    const found = detector
      ? await log.onnx('detector', detector, () => detectFaces(detector, picture, signal))
      : [];
    const faces: PlacedFace[] = [];
    for (const face of found) {
      signal.throwIfAborted();
      const mesh = await log.builtin('outline', 'facemesh', () => this.#fitMesh(picture, face));
      faces.push({ width: face.width, five: await this.#fivePoints(picture, face, signal, log), mesh });
    }
    if (faces.length === 0) {
      // builtin also finds faces that lie on their side, which common detectors do not find.
      const meshes = await log.builtin('detector', 'blazeface', () =>
        this.#finder.find(picture, () => signal.throwIfAborted()),
      );
      for (const mesh of meshes) {
        const box = boxOf(mesh);
        faces.push({ width: box.width, five: await this.#fivePoints(picture, box, signal, log), mesh });
      }
    }
    const prominence = (face: PlacedFace): number => face.width ** 2 * centrality(picture, face.five);
    faces.sort((a, b) => prominence(b) - prominence(a));
    const widest = faces[0]?.width ?? 0;
    return faces.filter(({ width }) => width >= SUITABLE_SHARE * widest);
  }

  /** Puts an identity onto every suitable face of a picture, in place. @returns their number */
  async swapPicture(
    picture: Picture,
    identity: Identity,
    signal: AbortSignal,
    log: StageLog,
  ): Promise<number> {
    const found = await this.findFaces(picture, signal, log);
    const faces = this.#models.get('swapper') ? found : found.filter(({ mesh }) => mesh);
    await this.swapFaces(picture, faces, identity, signal, log);
    return faces.length;
  }

  /** Puts an identity onto faces with known places, in place, such as the tracked faces of a video. */
  async swapFaces(
    picture: Picture,
    faces: readonly PlacedFace[],
    identity: Identity,
    signal: AbortSignal,
    log: StageLog,
  ): Promise<void> {
    if (faces.length === 0) return;
    const swapper = this.#models.get('swapper');
    const template = swapper?.traits.template ?? 'ffhq_512';
    const masks: PasteMask[] = [];
    for (const face of faces) masks.push(await this.#mask(picture, face, template, signal, log));
    if (swapper) await this.#swapByModel(swapper, picture, faces, masks, identity, signal, log);
    else await this.#swapByMesh(picture, faces, identity, signal, log);
    await this.enhanceFaces(picture, faces, masks, signal, log);
  }

  /** Places a face that is known by its mesh, such as one that is tracked through a video. */
  async place(picture: Picture, mesh: Face, signal: AbortSignal, log: StageLog): Promise<PlacedFace> {
    const box = boxOf(mesh);
    return { width: box.width, five: await this.#fivePoints(picture, box, signal, log), mesh };
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

  async #swapByMesh(
    picture: Picture,
    faces: readonly PlacedFace[],
    identity: Identity,
    signal: AbortSignal,
    log: StageLog,
  ): Promise<void> {
    const mesh = identity.face.mesh as Face;
    await log.builtin('swapper', 'mesh', () => {
      const widest = Math.max(...faces.map((face) => (face.mesh as Face).width));
      const source = prepareSource(identity.picture, mesh, widest);
      for (const face of faces) {
        signal.throwIfAborted();
        swapFace(picture, face.mesh as Face, source);
      }
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
    const { template = 'ffhq_512', size = 512 } = enhancer.traits;
    const { blend = 1, weight = 0.5 } = enhancer.options;
    const weighted = enhancer.model.inputs.some(({ role }) => role === 'weight');
    const better = await log.onnx('enhancer', enhancer, () =>
      Promise.all(
        faces.map(async (face): Promise<[CropTransform, RgbImage]> => {
          const transform = alignFace(face.five, template, size);
          const input = toPlanes(cropRgb(picture, transform, size, size), enhancer.traits);
          const feeds: FloatTensors = weighted
            ? { input, weight: { data: Float32Array.of(weight), dims: [1] } }
            : { input };
          return [transform, fromPlanes(await enhancer.run(feeds, signal), enhancer.traits)];
        }),
      ),
    );
    await log.own('paste', () => {
      for (const [i, [transform, crop]] of better.entries()) {
        signal.throwIfAborted();
        const mask = withinEdge(masks[i] as PasteMask, transform, size);
        pasteBack(picture, crop, transform, mask, blend * (faces[i]?.opacity ?? 1));
      }
    });
  }

  /** Returns where a face may be changed: its outline, without the objects in front of it. */
  async #mask(
    picture: Picture,
    face: PlacedFace,
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
    }
    const parser = this.#models.get('parser');
    if (parser) {
      const { transform, field } = await log.onnx('parser', parser, () =>
        parserField(parser, picture, face, signal),
      );
      mask = withinCrop(mask, transform, field);
    }
    return mask;
  }

  async #fivePoints(
    picture: Picture,
    face: FoundFace,
    signal: AbortSignal,
    log: StageLog,
  ): Promise<readonly Point[]> {
    const landmarks = this.#models.get('landmarks');
    if (!landmarks) return face.five;
    const five = await log.onnx('landmarks', landmarks, () => refineFive(landmarks, picture, face, signal));
    return five ?? face.five;
  }

  async #fitMesh(picture: Picture, face: FoundFace): Promise<Face | undefined> {
    const mesh = await this.#mesher.fit(picture, { ...face, keyPoints: face.five });
    return mesh.score >= MIN_MESH_SCORE ? mesh : undefined;
  }
}

/** Returns a face with a mesh in the form of a detector's face. */
function boxOf(mesh: Face): FoundFace {
  const outline = FACE_OVAL.map((index) => pointOf(mesh.points, index));
  const x = Math.min(...outline.map((point) => point.x));
  const y = Math.min(...outline.map((point) => point.y));
  return {
    score: mesh.score,
    x,
    y,
    width: Math.max(...outline.map((point) => point.x)) - x,
    height: Math.max(...outline.map((point) => point.y)) - y,
    five: [
      centroid(mesh.points, RIGHT_EYE),
      centroid(mesh.points, LEFT_EYE),
      pointOf(mesh.points, NOSE_TIP),
      ...MOUTH_CORNERS.map((index) => pointOf(mesh.points, index)),
    ],
  };
}

/**
 * Returns 1 at the centre of the picture and 0.6 in its corners, because of two equally large faces the central one
 * is meant.
 */
function centrality(picture: Picture, five: readonly Point[]): number {
  const nose = five[2] as Point;
  const dx = (nose.x - picture.width / 2) / (picture.width / 2);
  const dy = (nose.y - picture.height / 2) / (picture.height / 2);
  return 1 - 0.4 * Math.min(1, Math.hypot(dx, dy) / Math.SQRT2);
}
