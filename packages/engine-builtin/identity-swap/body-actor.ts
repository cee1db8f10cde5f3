import { type Plane, plane, smoothstep } from '@semblance/vision/plane/plane';
import type { Planes } from '../animate/openings.ts';
import { planesOf } from '../animate/yuv.ts';
import { mouthScaleOf } from '../motion-transfer/mouth-scale.ts';
import type { Actor, Sighting, Stage } from './actor.ts';
import { type Character, MAX_OF_FRAME } from './character.ts';
import { ClothesDyer } from './clothes.ts';
import { type Cutout, cutOut } from './cutout.ts';
import { CharacterDrawer } from './draw.ts';
import { ExpressionFollower, type HeadPose } from './expression-follow.ts';
import { PointSmoother } from './follow.ts';
import { putOver, ThingsInFront } from './front.ts';
import { HeadPainter, type HeadPatch } from './head.ts';
import { isWhole, keptOf } from './kept.ts';
import { Poser } from './pose.ts';
import { skeletonOf } from './skeleton.ts';
import { toned, toneFor } from './tone.ts';

/** Distances from the mask, in body sizes, between which the erased area fades. */
const HOLE = [0.018, 0.05] as const;
/** Frames before and after one that determine its size. */
const SIZES = 12;

/** Puts a character's body in the place of the person's. */
export class BodyActor implements Actor {
  readonly #character: Character;
  readonly #stage: Stage;
  #cutout: Cutout | undefined;
  /** Requested body size of the cut-out; the picture may have had less. */
  #asked = 0;
  #drawer: CharacterDrawer | undefined;
  #dyer: ClothesDyer | undefined;
  #poser: Poser | undefined;
  #head: HeadPainter | undefined;
  #expression: ExpressionFollower | undefined;
  #smoother = new PointSmoother();
  #inFront = new ThingsInFront();
  /** Body sizes in the last drawn frames. */
  #sizes: number[] = [];
  faces = 0;

  constructor(character: Character, stage: Stage) {
    this.#character = character;
    this.#stage = stage;
  }

  cut(): void {
    this.#drawer = undefined;
    this.forget();
  }

  forget(): void {
    this.#poser = undefined;
    this.#expression = undefined;
    this.#smoother = new PointSmoother();
    this.#inFront = new ThingsInFront();
    this.#sizes = [];
  }

  draw(sighting: Sighting): true {
    const { data, planes, map, distance, face, person, ptsUs, ahead } = sighting;
    const { width, height } = this.#stage;
    const points = this.#smoother.smooth(person.points, ptsUs);
    const skeleton = skeletonOf(points);
    const hole = plane(distance.width, distance.height);
    const [inner, outer] = HOLE.map((share) => (share * skeleton.size) / 2 + 1) as [number, number];
    for (let i = 0; i < hole.data.length; i++) {
      hole.data[i] = 1 - smoothstep(inner, outer, distance.data[i] as number);
    }
    const cutout = this.#cutoutFor(skeleton.size, planes, distance);
    const kept = isWhole(cutout) ? undefined : keptOf(cutout, skeleton, distance);
    if (kept) {
      for (let i = 0; i < hole.data.length; i++) {
        hole.data[i] = (hole.data[i] as number) * (1 - (kept.stays.data[i] as number));
      }
    }
    if (kept) this.#dyer?.dye(planes, kept.clothed, skeleton, distance);
    const before = this.#inFront.look(distance, skeleton);
    const original = kept || before ? data.slice() : undefined;
    this.#stage.plate.fill(planes, hole, map);
    this.#poser ??= new Poser(cutout, this.#stage);
    const size = this.#usualSize(skeleton.size, ahead);
    const posed = this.#headPose(face, ptsUs, ahead);
    const body = this.#poser.pose({ ...skeleton, size }, ptsUs, posed?.share);
    this.#drawer?.draw(planes, body, this.#headPatch(posed, body.mirror));
    if (kept && original) {
      // Remaining arms of the person lie in front of the character.
      for (let i = 0; i < hole.data.length; i++) {
        const covered = 1 - smoothstep(0, 2, distance.data[i] as number);
        kept.front.data[i] = (kept.front.data[i] as number) * covered;
      }
      putOver(planes, planesOf(original, width, height), kept.front);
    }
    if (before && original) putOver(planes, planesOf(original, width, height), before);
    return true;
  }

  /** Returns the head's rotation and expression where the character shows a face. */
  #headPose(face: Float32Array | undefined, ptsUs: number, ahead: Sighting['ahead']): HeadPose | undefined {
    const known = this.#character.face;
    if (!this.#head || !known) return undefined;
    this.#expression ??= new ExpressionFollower(this.#head.portrait, mouthScaleOf(known.mouth));
    if (face) this.faces++;
    return this.#expression.pose(
      face,
      ptsUs,
      ahead.map((coming) => coming.face),
    );
  }

  /** Returns the head to draw; the mirror image of a head stands for its back. */
  #headPatch(posed: HeadPose | undefined, mirror: 1 | -1): HeadPatch | undefined {
    if (!this.#head) return undefined;
    if (mirror < 0) return this.#head.behind();
    return posed && posed.share > 0 ? this.#head.posed(posed.pose) : this.#head.flat;
  }

  /** Returns the body size around this frame, because single frames measure it badly. */
  #usualSize(now: number, ahead: Sighting['ahead']): number {
    this.#sizes.push(now);
    if (this.#sizes.length > SIZES + 1) this.#sizes.shift();
    const around = this.#sizes.slice();
    for (const { person } of ahead.slice(0, SIZES)) {
      if (person) around.push(skeletonOf(person.points).size);
    }
    around.sort((a, b) => a - b);
    return around[around.length >> 1] as number;
  }

  /** Returns the cut-out at about its drawn size; makes it again when the size differs much. */
  #cutoutFor(size: number, frame: Planes, distance: Plane): Cutout {
    const { picture, person, alpha } = this.#character;
    const wanted = Math.min(1.25 * size, MAX_OF_FRAME * this.#stage.height);
    if (!this.#cutout || wanted > 1.4 * this.#asked) {
      this.#asked = wanted;
      const own = alpha ? { own: alpha } : {};
      this.#cutout = cutOut(picture, person, {
        size: wanted,
        colors: this.#stage.colors,
        checkpoint: this.#stage.checkpoint,
        ...own,
      });
      this.#drawer = undefined;
      this.#poser = undefined;
    }
    if (!this.#drawer) {
      this.#stage.checkpoint();
      const inLight = toned(this.#cutout, toneFor(this.#cutout, frame, distance));
      this.#stage.checkpoint();
      this.#drawer = new CharacterDrawer(inLight);
      this.#dyer = new ClothesDyer(inLight);
      this.#head = this.#headOf(inLight);
    }
    return this.#cutout;
  }

  #headOf(cutout: Cutout): HeadPainter | undefined {
    const { face } = this.#character;
    if (!face) return undefined;
    const { originX, originY, scale } = cutout.crop;
    const points = face.points.map(
      (value, i) => (value - (i % 3 === 0 ? originX : i % 3 === 1 ? originY : 0)) / scale,
    );
    return HeadPainter.of(cutout, points);
  }
}
