import type { LeftReason } from '@semblance/engine-api/findings';
import type { Picture } from '@semblance/engine-api/picture';
import { withBystanders } from '@semblance/engine-builtin/findings/face-counts';
import { type FaceFinder, SUITABLE_SHARE } from '@semblance/vision/face-finder';
import { centroid, type Face, type FaceMesher, pointOf } from '@semblance/vision/face-mesh';
import { FACE_OVAL, LEFT_EYE, RIGHT_EYE } from '@semblance/vision/face-regions';
import type { Point } from '@semblance/vision/picture';
import { detectFaces, type FoundFace } from './stages/detector.ts';
import { refineFive } from './stages/landmarks.ts';
import type { Models, StageLog } from './stages/models.ts';

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

/** What a search found. */
export interface SeenFaces {
  readonly faces: readonly PlacedFace[];
  /** Why each other face was left alone. */
  readonly left: readonly LeftReason[];
}

/** Finds the faces of pictures and their landmarks with the available models; `builtin` does the rest. */
export class FacePlaces {
  readonly #models: Models;
  readonly #finder: FaceFinder;
  readonly #mesher: FaceMesher;

  constructor({
    models,
    finder,
    mesher,
  }: { readonly models: Models; readonly finder: FaceFinder; readonly mesher: FaceMesher }) {
    this.#models = models;
    this.#finder = finder;
    this.#mesher = mesher;
  }

  /** Returns the faces of a picture, the most prominent first, and why others were left alone. */
  async look(picture: Picture, signal: AbortSignal, log: StageLog): Promise<SeenFaces> {
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
    let left: readonly LeftReason[] = [];
    if (faces.length === 0) {
      // builtin also finds faces that lie on their side, which common detectors do not find.
      const seen = await log.builtin('detector', 'blazeface', () =>
        this.#finder.look(picture, () => signal.throwIfAborted()),
      );
      left = seen.left;
      for (const mesh of seen.faces) {
        const box = boxOf(mesh);
        faces.push({ width: box.width, five: await this.#fivePoints(picture, box, signal, log), mesh });
      }
    }
    const prominence = (face: PlacedFace): number => face.width ** 2 * centrality(picture, face.five);
    faces.sort((a, b) => prominence(b) - prominence(a));
    const widest = faces[0]?.width ?? 0;
    const suitable = faces.filter(({ width }) => width >= SUITABLE_SHARE * widest);
    return { faces: suitable, left: withBystanders(left, faces.length - suitable.length) };
  }

  /** Places a face that is known by its mesh. */
  async place(picture: Picture, mesh: Face, signal: AbortSignal, log: StageLog): Promise<PlacedFace> {
    return placedAt(mesh, (await this.refine(picture, mesh, signal, log)) ?? fiveOf(mesh));
  }

  /**
   * Returns the five points that the landmark model finds for a mesh; undefined without a model, or if it is not
   * certain.
   */
  refine(
    picture: Picture,
    mesh: Face,
    signal: AbortSignal,
    log: StageLog,
  ): Promise<readonly Point[] | undefined> {
    return this.#refine(picture, boxOf(mesh), signal, log);
  }

  /** Whether there is a model that refines five points. */
  get refines(): boolean {
    return this.#models.get('landmarks') !== undefined;
  }

  async #fivePoints(
    picture: Picture,
    face: FoundFace,
    signal: AbortSignal,
    log: StageLog,
  ): Promise<readonly Point[]> {
    return (await this.#refine(picture, face, signal, log)) ?? face.five;
  }

  async #refine(
    picture: Picture,
    face: FoundFace,
    signal: AbortSignal,
    log: StageLog,
  ): Promise<readonly Point[] | undefined> {
    const landmarks = this.#models.get('landmarks');
    if (!landmarks) return undefined;
    return log.onnx('landmarks', landmarks, () => refineFive(landmarks, picture, face, signal));
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
    five: fiveOf(mesh),
  };
}

/** Returns the five points of a mesh, as detectors give them. */
export function fiveOf({ points }: Face): readonly Point[] {
  return [
    centroid(points, RIGHT_EYE),
    centroid(points, LEFT_EYE),
    pointOf(points, NOSE_TIP),
    ...MOUTH_CORNERS.map((index) => pointOf(points, index)),
  ];
}

/** Returns a face with a mesh, placed by these five points. */
export function placedAt(mesh: Face, five: readonly Point[]): PlacedFace {
  return { width: boxOf(mesh).width, five, mesh };
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
