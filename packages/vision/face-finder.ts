import type { LeftReason } from '@semblance/engine-api/findings';
import type { Picture } from '@semblance/engine-api/picture';
import type { InferenceSession } from 'onnxruntime-node';
import { FaceCheck } from './face-check.ts';
import { FaceCover } from './face-cover.ts';
import { type Detection, FaceDetector } from './face-detector.ts';
import { type CropSource, centroid, cropsOf, type Face, FaceMesher, faceArea } from './face-mesh.ts';
import type { FaceRecogniser } from './face-recogniser.ts';
import { FACE_OVAL, FACE_SIDES } from './face-regions.ts';
import type { Point } from './picture.ts';
import type { Plane } from './plane/plane.ts';
import { turn, turnBack } from './quarter-turns.ts';

/** Smallest face width of the first search, in picture pixels. */
export const MIN_FACE = 56;
/** Smallest face width of the second search, when the picture shows nothing larger. */
const MIN_FACE_LAST = 30;
/** Faces narrower than this share of the most prominent one belong to bystanders. */
export const SUITABLE_SHARE = 0.6;
const MIN_MESH_SCORE = 0.5;
/** Most places without a mesh that are looked at for hidden faces. */
const MOST_HIDDEN = 8;
/** Largest yaw of a usable face, in radians. Beyond it, too little of the face is visible. */
export const MAX_YAW = (62 * Math.PI) / 180;

export interface FaceSessions {
  readonly blazeface: InferenceSession;
  readonly facemesh: InferenceSession;
  /** Without it the finder returns everything that the other two take for a face, as measurements of them need. */
  readonly face_features?: InferenceSession;
  /** Without it nothing is known about what covers a face. */
  readonly face_cover?: InferenceSession;
  /** Opens a network of the check, which asks it where it is undecided. */
  readonly recogniser?: () => Promise<FaceRecogniser>;
}

export interface UprightOptions {
  /** Faces narrower than this share of the most prominent one are left out. */
  readonly share?: number;
  /** Faces that were found before; they are not checked again. */
  readonly known?: readonly Face[];
}

interface FitOptions extends UprightOptions {
  /** Called often; throws to stop. */
  readonly checkpoint: () => void;
  /** Meshes that the check refused; those of this fit are added. One that lies there again is not looked at again. */
  readonly refused?: Face[];
}

/** What a search found. */
export interface Seen {
  /** Suitable faces, most prominent first. */
  readonly faces: Face[];
  /** Why each other face was left alone. */
  readonly left: readonly LeftReason[];
}

/** Most further fits of a face that moved, and the distance below which crop and mesh agree, in face widths. */
const MOST_STEPS = 3;
const AGREES = 0.04;
/** Distance below which two meshes lie on the same thing, in face widths. */
const SAME_MESH = 0.2;

/** Finds the faces of a picture and fits their meshes. A {@link FaceCheck} looks at each before it is returned. */
export class FaceFinder {
  readonly #detector: FaceDetector;
  readonly #mesher: FaceMesher;
  readonly #check: FaceCheck | undefined;
  readonly #cover: FaceCover | undefined;

  constructor(sessions: FaceSessions) {
    this.#detector = new FaceDetector(sessions.blazeface);
    this.#mesher = new FaceMesher(sessions.facemesh);
    const { face_features, recogniser } = sessions;
    if (face_features) this.#check = new FaceCheck(face_features, { mesher: this.#mesher, recogniser });
    if (sessions.face_cover) this.#cover = new FaceCover(sessions.face_cover);
  }

  /** Runs each network once, whatever they find. @returns the mesh, also when the picture shows no face */
  async warmUp(picture: Picture): Promise<Face> {
    await this.#detect(picture, MIN_FACE, () => undefined);
    const { width, height } = picture;
    const keyPoints = [0.35, 0.65].map((x) => ({ x: x * width, y: 0.4 * height }));
    const face = await this.#mesher.fit(picture, { score: 1, x: 0, y: 0, width, height, keyPoints });
    await this.#check?.isFace(cropsOf(picture), face);
    await this.#cover?.of(cropsOf(picture), face);
    return face;
  }

  /**
   * Returns the faces of a picture, most prominent first, without much smaller ones. When it finds none upright, it
   * also searches the picture on its side and upside down.
   * @param checkpoint called often; throws to stop
   */
  async find(picture: Picture, checkpoint: () => void): Promise<Face[]> {
    return (await this.look(picture, checkpoint)).faces;
  }

  /** Does the same and tells which faces were left alone. */
  async look(picture: Picture, checkpoint: () => void): Promise<Seen> {
    const found = await this.#detect(picture, MIN_FACE, checkpoint);
    const how = { checkpoint, refused: [] };
    const first = await this.#fit(picture, found, how);
    if (first.faces.length > 0) return first;
    // Beside something large that is no face, a face may be small.
    const share = found.length > 0 ? 0 : SUITABLE_SHARE;
    const places = await this.#detect(picture, MIN_FACE_LAST, checkpoint, share);
    const small = await this.#fit(picture, places, how);
    if (small.faces.length > 0) return small;
    const without = [first, small];
    for (const turns of [1, 3, 2] as const) {
      const turned = turn(picture, turns);
      const found = await this.#detect(turned, MIN_FACE, checkpoint);
      const seen = await this.#fit(
        picture,
        found.map((d) => turnBack(d, picture, turns)),
        how,
      );
      if (seen.faces.length > 0) return seen;
      without.push(seen);
    }
    // The searches saw the same picture, so the fullest account counts.
    const fullest = without.reduce((most, seen) => (seen.left.length > most.left.length ? seen : most));
    if (fullest.left.length > 0) return fullest;
    return { faces: [], left: await this.#hidden(picture, places, checkpoint) };
  }

  /** Returns a reason for each place at which no mesh lies, but which the check takes for a face. */
  async #hidden(
    picture: Picture,
    places: readonly Detection[],
    checkpoint: () => void,
  ): Promise<LeftReason[]> {
    const left: LeftReason[] = [];
    for (const place of this.#check ? places.slice(0, MOST_HIDDEN) : []) {
      checkpoint();
      const face = await this.#mesher.fit(picture, place);
      const likeness = await this.#check?.likeness(cropsOf(picture), face);
      if (likeness !== undefined && likeness > 0) left.push('covered');
    }
    return left;
  }

  /**
   * Returns the upright faces of a picture in the order of {@link find}, with one smallest width. Its cost is
   * bounded, as repeated searches need.
   */
  async findUpright(picture: Picture, smallest: number, checkpoint: () => void): Promise<Face[]> {
    return (await this.lookUpright(picture, smallest, checkpoint)).faces;
  }

  /** Does the same and tells which faces were left alone. */
  async lookUpright(
    picture: Picture,
    smallest: number,
    checkpoint: () => void,
    { share = SUITABLE_SHARE, known = [] }: UprightOptions = {},
  ): Promise<Seen> {
    const found = await this.#detect(picture, smallest, checkpoint, share);
    return this.#fit(picture, found, { checkpoint, share, known });
  }

  /** Whether a picture shows upright faces beside known ones. It searches once and fits no mesh. */
  async seesOthers(
    picture: Picture,
    known: readonly Face[],
    smallest: number,
    checkpoint: () => void,
  ): Promise<boolean> {
    const found = await this.#detect(picture, smallest, checkpoint);
    return found.some(({ x, y, width, height }) => !isAmong(known, { x: x + width / 2, y: y + height / 2 }));
  }

  /** Fits the mesh of a known face again, for example after the picture changed. */
  refit(picture: Picture, face: Face): Promise<Face> {
    return this.#mesher.refine(picture, face);
  }

  /** Does the same for pixels that are in no {@link Picture}. */
  refitFrom(source: CropSource, face: Face): Promise<Face> {
    return this.#mesher.refineFrom(source, face);
  }

  /**
   * Fits the mesh of a face that was somewhere else a moment ago. The first crop may show only a part of a face that
   * moves fast, so the crop follows the mesh until both agree.
   */
  async followFrom(source: CropSource, expected: Face): Promise<Face> {
    let [from, face] = [expected, await this.refitFrom(source, expected)];
    for (let again = 0; again < MOST_STEPS && meshDistance(from, face) > AGREES * face.width; again++)
      [from, face] = [face, await this.refitFrom(source, face)];
    return face;
  }

  /** Returns what {@link FaceCover} finds; undefined without its network. */
  async coverOf(source: CropSource, face: Face, thin = false): Promise<Plane | undefined> {
    return this.#cover?.of(source, face, thin);
  }

  #detect(
    picture: Picture,
    smallest: number,
    checkpoint: () => void,
    share = SUITABLE_SHARE,
  ): Promise<Detection[]> {
    const minFace = (found: readonly Detection[]): number =>
      Math.max(smallest, ...found.map((detection) => share * detection.width));
    return this.#detector.detect(picture, { minFace, checkpoint });
  }

  async #fit(picture: Picture, detections: readonly Detection[], how: FitOptions): Promise<Seen> {
    const faces: Face[] = [];
    const left: LeftReason[] = [];
    for (const detection of detections) {
      how.checkpoint();
      const face = await this.#mesher.fit(picture, detection);
      if (isShown(face)) faces.push(face);
      else if (face.score >= MIN_MESH_SCORE) left.push('turned_away');
    }
    const prominence = (face: Face): number => faceArea(face) * centrality(picture, face);
    faces.sort((a, b) => prominence(b) - prominence(a));
    return this.#checked(picture, faces, left, how);
  }

  /** Returns the suitable ones that the check takes for faces. It is run on no face that is too narrow anyway. */
  async #checked(
    picture: Picture,
    found: readonly Face[],
    left: LeftReason[],
    { checkpoint, share = SUITABLE_SHARE, known = [], refused = [] }: FitOptions,
  ): Promise<Seen> {
    const faces: Face[] = [];
    for (const face of found) {
      if (face.width < share * (faces[0]?.width ?? 0)) {
        if (!isAmong(faces, centroid(face.points, FACE_OVAL))) left.push('bystander');
        continue;
      }
      checkpoint();
      const sure = !this.#check || isAmong(known, centroid(face.points, FACE_OVAL));
      const again = refused.some((other) => meshDistance(face, other) < SAME_MESH * face.width);
      if (sure || (!again && (await this.#check?.isFace(cropsOf(picture), face)))) faces.push(face);
      else {
        left.push('not_a_person');
        refused.push(face);
      }
    }
    return { faces, left };
  }
}

/** Whether a point lies in the middle of one of some faces. */
function isAmong(faces: readonly Face[], { x, y }: Point): boolean {
  return faces.some((face) => {
    const at = centroid(face.points, FACE_OVAL);
    return Math.hypot(at.x - x, at.y - y) < face.width / 2;
  });
}

/** Whether a fitted mesh lies on a face of which enough is visible. */
export function isShown(face: Face): boolean {
  return face.score >= MIN_MESH_SCORE && Math.abs(yaw(face)) <= MAX_YAW;
}

/** Returns the yaw of a face in radians; 0 faces the camera. */
export function yaw(face: Face): number {
  const [a, b] = FACE_SIDES;
  const at = (i: number, k: number): number => face.points[i * 3 + k] as number;
  const across = Math.hypot(at(b, 0) - at(a, 0), at(b, 1) - at(a, 1));
  return Math.atan2(at(b, 2) - at(a, 2), across);
}

/**
 * Returns 1 at the centre of the picture and 0.6 in its corners, so that the more central of two faces of equal
 * size wins.
 */
function centrality(picture: Picture, face: Face): number {
  const dx = ((face.points[4 * 3] as number) - picture.width / 2) / (picture.width / 2);
  const dy = ((face.points[4 * 3 + 1] as number) - picture.height / 2) / (picture.height / 2);
  return 1 - 0.4 * Math.min(1, Math.hypot(dx, dy) / Math.SQRT2);
}

/** Returns the mean distance of the points of two meshes. */
export function meshDistance(a: Face, b: Face): number {
  let sum = 0;
  for (let i = 0; i < a.points.length; i += 3)
    sum += Math.hypot(
      (a.points[i] as number) - (b.points[i] as number),
      (a.points[i + 1] as number) - (b.points[i + 1] as number),
    );
  return sum / (a.points.length / 3);
}
