import { faceFrame } from '../animate/face-frame.ts';
import { posedPoints } from '../animate/portrait.ts';
import { type BytePlane, drawTexture, drawTextures } from '../animate/raster.ts';
import type { TriangleGeometry } from '../animate/triangle-spans.ts';
import { mouthScaleOf } from '../motion-transfer/mouth-scale.ts';
import type { Actor, Sighting, Stage } from './actor.ts';
import type { Character } from './character.ts';
import type { CharacterFace } from './character-face.ts';
import { ExpressionFollower, type HeadPose } from './expression-follow.ts';
import { PointSmoother } from './follow.ts';
import { type Affine, add, apply, length, sub } from './geometry.ts';
import { HeadPainter, type HeadPatch } from './head.ts';
import { cutOutHead } from './head-cutout.ts';
import { faceDetail, withDetail } from './head-detail.ts';
import { headHole } from './head-hole.ts';
import { type FaceLight, faceLight, litHead } from './head-light.ts';
import { eyesAndChin, fitFace, HeadPlacer, type HeadSpot, mapTo, spotOf } from './head-place.ts';
import { HairFinder } from './long-hair.ts';
import { neckSkin, type Skin, tintNeck } from './neck-tint.ts';
import { type Skeleton, skeletonOf } from './skeleton.ts';

/** Ratio of the cut-out's eye distance to the drawn one, sizes at which it is made again, and its least and largest size. */
const FINER = 1.25;
const GROWN = 1.4;
const SHRUNK = 0.45;
const LEAST_IOD = 16;
const MOST_IOD = 200;
/** Width of the person's edge that is erased, in eye distances. */
const EDGE = [0.1, 0.3] as const;
/** Weight of each new observation of a skin. */
const LEARNING = 0.05;

/** A head at one size in one light. */
interface Prepared {
  readonly painter: HeadPainter;
  readonly light: FaceLight | undefined;
  readonly cutAbove: boolean;
}

/** Puts the head of a character, of whom the picture shows no more, on the person's neck. */
export class HeadActor implements Actor {
  readonly #character: Character;
  readonly #face: CharacterFace;
  readonly #stage: Stage;
  #asked = 0;
  #prepared: Prepared | undefined;
  #placer = new HeadPlacer();
  #smoother = new PointSmoother();
  #expression: ExpressionFollower | undefined;
  #hair = new HairFinder();
  /** Skin of the person's face and neck. */
  #seen: FaceLight | undefined;
  #neck: Skin | undefined;
  faces = 0;

  constructor(character: Character & { readonly face: CharacterFace }, stage: Stage) {
    this.#character = character;
    this.#face = character.face;
    this.#stage = stage;
  }

  cut(): void {
    this.#prepared = undefined;
    this.#seen = undefined;
    this.#neck = undefined;
    this.#hair = new HairFinder();
    this.forget();
  }

  forget(): void {
    this.#placer = new HeadPlacer();
    this.#smoother = new PointSmoother();
    this.#expression = undefined;
  }

  draw(sighting: Sighting): boolean {
    const { planes, distance, face, person, ptsUs, ahead, map } = sighting;
    const skeleton = skeletonOf(this.#smoother.smooth(person.points, ptsUs));
    const known = face ? { face, skeleton } : this.#firstFace(ahead);
    if (!known && !this.#placer.knows) return false;
    if (face) this.faces++;
    const rough = known ? spotOfFace(known.face) : undefined;
    if (rough && known) this.#placer.learn(rough, known.skeleton);
    const size = face && rough ? rough.iod : this.#placer.guessed(skeleton).iod;
    const { painter, light, cutAbove } = this.#preparedFor(size, sighting, face);
    const pose = this.#pose(painter, sighting);
    const points = posedPoints(painter.portrait, pose.pose);
    const { eyes, chin } = eyesAndChin(points);
    const { iod } = painter.portrait.frame;
    const fitted = face && spotOf(fitFace(points, face), eyes, chin, iod);
    if (fitted) this.#placer.learn(fitted, skeleton);
    const spot = this.#placer.smooth(fitted ?? this.#placer.guessed(skeleton), ptsUs);
    const place = mapTo(spot, eyes, chin, iod);
    const toChin = length(sub(chin, eyes)) / iod;
    if (face) this.#look(sighting, face);
    const edge = EDGE.map((share) => (share * spot.iod) / 2 + 1) as [number, number];
    const neck = [skeleton.shoulders, skeleton.head] as const;
    const { shoulders: middle, shoulderSide } = skeleton;
    const shoulders = [add(middle, shoulderSide), sub(middle, shoulderSide)] as const;
    const hole = headHole(distance, spot, { chin: toChin, neck, shoulders, edge, keepsHair: cutAbove });
    const hair = cutAbove
      ? undefined
      : this.#hair.look(planes, distance, {
          face: face && flat(face),
          spot,
          chin: toChin,
          of: skeleton,
        });
    if (hair) {
      for (let i = 0; i < hole.data.length; i++) {
        hole.data[i] = Math.max(hole.data[i] as number, hair.free.data[i] as number);
      }
    }
    hair?.cover(planes);
    this.#stage.plate.fill(planes, hole, map, distance);
    if (this.#seen && light) {
      const colours = { from: this.#seen, neck: this.#neckOf(sighting, spot, toChin), to: light };
      tintNeck(planes, distance, colours, spot, toChin);
    }
    const patch =
      skeleton.facing < 0 ? painter.behind() : pose.share > 0 ? painter.posed(pose.pose) : painter.flat;
    drawPatch(planes, patch, place);
    return true;
  }

  /** Returns the first coming frame that shows the face, for a shot that begins without one. */
  #firstFace(ahead: Sighting['ahead']): { face: Float32Array; skeleton: Skeleton } | undefined {
    if (this.#placer.knows) return undefined;
    const first = ahead.find(({ face, person }) => face && person);
    return first?.face && first.person
      ? { face: first.face, skeleton: skeletonOf(first.person.points) }
      : undefined;
  }

  #pose(painter: HeadPainter, { face, ptsUs, ahead }: Sighting): HeadPose {
    this.#expression ??= new ExpressionFollower(painter.portrait, mouthScaleOf(this.#face.mouth));
    return this.#expression.pose(
      face,
      ptsUs,
      ahead.map((coming) => coming.face),
    );
  }

  /** Learns the person's skin. */
  #look({ planes }: Sighting, face: Float32Array): void {
    const now = faceLight(planes, flat(face), spotOfFace(face));
    const before = this.#seen;
    if (!now || !before) {
      this.#seen = now ?? before;
      return;
    }
    const mixed = (key: keyof FaceLight): number => before[key] + LEARNING * (now[key] - before[key]);
    this.#seen = { y: mixed('y'), u: mixed('u'), v: mixed('v'), right: mixed('right'), down: mixed('down') };
  }

  /** Returns the skin of the person's neck as it was seen so far. */
  #neckOf({ planes, distance }: Sighting, spot: HeadSpot, chin: number): Skin | undefined {
    const now = this.#seen && neckSkin(planes, distance, this.#seen, spot, chin);
    const before = this.#neck;
    const mixed = (key: keyof Skin): number =>
      now && before ? before[key] + LEARNING * (now[key] - before[key]) : 0;
    this.#neck = now && before ? { y: mixed('y'), u: mixed('u'), v: mixed('v') } : (now ?? before);
    return this.#neck;
  }

  /** Returns the head at about its drawn size; makes it again when the size differs much. */
  #preparedFor(iod: number, sighting: Sighting, face: Float32Array | undefined): Prepared {
    const wanted = Math.min(MOST_IOD, Math.max(LEAST_IOD, FINER * iod));
    const fits = wanted <= GROWN * this.#asked && wanted >= SHRUNK * this.#asked;
    if (this.#prepared && fits) return this.#prepared;
    const { picture, alpha, person } = this.#character;
    const { colors, checkpoint } = this.#stage;
    this.#asked = wanted;
    const cutout = cutOutHead(picture, this.#face.points, person.mask, {
      iod: wanted,
      colors,
      checkpoint,
      ...(alpha ? { own: alpha } : {}),
    });
    const points = flat(cutout.points);
    const spot = spotOfFace(cutout.points);
    const own = faceLight(cutout.armless, points, spot);
    const seen = face ? faceLight(sighting.planes, flat(face), spotOfFace(face)) : this.#seen;
    const lit = own && seen ? litHead(cutout.armless, own, seen, spot) : cutout.armless;
    const armless = face
      ? withDetail(
          lit,
          faceDetail(lit.y, points, spot.iod),
          faceDetail(sighting.planes.y, flat(face), spotOfFace(face).iod),
          spot.iod,
        )
      : lit;
    checkpoint();
    const painter = HeadPainter.of({ ...cutout, armless }, cutout.points);
    if (!painter) throw new Error('a face whose head cannot be drawn');
    const light = own && faceLight(armless, points, spot);
    this.#prepared = { painter, light, cutAbove: cutout.cutAbove };
    return this.#prepared;
  }
}

/** Returns x and y of points that have x, y and z. */
function flat(points: Float32Array): Float32Array {
  const out = new Float32Array((points.length / 3) * 2);
  for (let i = 0; i < out.length; i += 2) {
    out[i] = points[(i / 2) * 3] as number;
    out[i + 1] = points[(i / 2) * 3 + 1] as number;
  }
  return out;
}

function spotOfFace(face: Float32Array): HeadSpot {
  const { eyes, chin } = eyesAndChin(flat(face));
  return { ...eyes, iod: faceFrame(face).iod, angle: Math.atan2(chin.y - eyes.y, chin.x - eyes.x) };
}

/** Draws a head that a map moves from the painter's own pixels to the frame. */
function drawPatch(frame: Sighting['planes'], { planes, alpha }: HeadPatch, place: Affine): void {
  const { width, height } = alpha;
  const from: number[] = [];
  const to: number[] = [];
  for (const [x, y] of [
    [0, 0],
    [width, 0],
    [0, height],
    [width, height],
  ] as const) {
    const q = apply(place, { x, y });
    from.push(x, y);
    to.push(q.x, q.y);
  }
  const geometry: TriangleGeometry = {
    from: Float32Array.from(from),
    to: Float32Array.from(to),
    triangles: Uint16Array.of(0, 2, 1, 1, 2, 3),
    scale: 1,
  };
  drawTexture(frame.y, planes.y, geometry, alpha);
  drawTextures([frame.u, frame.v], [planes.u, planes.v], { ...geometry, scale: 0.5 }, halved(alpha));
}

function halved({ width, height, data }: BytePlane): BytePlane {
  const [w, h] = [width >> 1, height >> 1];
  const out = new Uint8Array(w * h);
  for (let y = 0; y < h; y++) {
    for (let x = 0; x < w; x++) {
      const i = 2 * y * width + 2 * x;
      const sum = (data[i] as number) + (data[i + 1] as number) + (data[i + width] as number);
      out[y * w + x] = (sum + (data[i + width + 1] as number) + 2) >> 2;
    }
  }
  return { width: w, height: h, data: out };
}
