import type { VideoFrame } from '@semblance/media/types';
import type { Person } from '@semblance/vision/person';
import { maskInPicture } from '@semblance/vision/person-mask';
import { distanceInside, type Plane, plane, smoothstep } from '@semblance/vision/plane/plane';
import type { Planes } from '../animate/openings.ts';
import { planesOf } from '../animate/yuv.ts';
import { mouthScaleOf } from '../motion-transfer/mouth-scale.ts';
import type { Colors } from '../video-swap/frame-part.ts';
import { type Character, MAX_OF_FRAME } from './character.ts';
import { ClothesDyer } from './clothes.ts';
import { type Cutout, cutOut } from './cutout.ts';
import { CharacterDrawer } from './draw.ts';
import { ExpressionFollower, type HeadPose } from './expression-follow.ts';
import { between, PointSmoother, scaledMask } from './follow.ts';
import { putOver, ThingsInFront } from './front.ts';
import type { Affine } from './geometry.ts';
import { HeadPainter, type HeadPatch } from './head.ts';
import { isWhole, keptOf } from './kept.ts';
import { BackgroundPlate } from './plate.ts';
import { Poser } from './pose.ts';
import { skeletonOf } from './skeleton.ts';
import { toned, toneFor } from './tone.ts';

/** Frames that are examined before one of them is drawn, because they show parts of its background. */
const AHEAD = 40;
/** Longest gap, in frames, over which an invisible person is interpolated. */
const MAX_BRIDGED = 15;
/**
 * Width of the margin around the mask, in body sizes: outside it is certain background; inside it is replaced with
 * the person.
 */
const NEAR = 0.045;
const HOLE = [0.018, 0.05] as const;
/** Frames before and after one that determine its size. */
const SIZES = 12;
/** Share of a pixel from which the mask counts it as person. */
const COVERED = 0.25;

interface Waiting {
  readonly frame: VideoFrame;
  readonly person: Person | undefined;
  /** Points of the person's face, in pixels of the frame. */
  readonly face: Float32Array | undefined;
  readonly map: Affine;
  readonly distance: Plane | undefined;
}

/** Replaces the person in a video's frames, in order. It holds back as many frames as it looks ahead. */
export class Scene {
  readonly #character: Character;
  readonly #done: (frame: VideoFrame) => void;
  readonly #checkpoint: () => void;
  readonly #colors: Colors;
  readonly #size: { readonly width: number; readonly height: number };
  readonly #plate: BackgroundPlate;
  #waiting: Waiting[] = [];
  #last: { readonly person: Person; readonly index: number } | undefined;
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
  /** Frames in which the character replaces the person. */
  drawn = 0;
  /** Frames in which its head follows a face. */
  faces = 0;

  /** @param done receives the drawn frames in order */
  constructor(
    character: Character,
    done: (frame: VideoFrame) => void,
    video: { readonly width: number; readonly height: number; readonly color: Colors },
    checkpoint: () => void,
  ) {
    this.#checkpoint = checkpoint;
    this.#character = character;
    this.#done = done;
    this.#colors = video.color;
    this.#size = { width: video.width, height: video.height };
    this.#plate = new BackgroundPlate(video.width, video.height);
  }

  /** Draws the oldest frame when enough later frames were examined. */
  advance(): void {
    if (this.#waiting.length > AHEAD) this.next();
  }

  /** Adds the next frame of the shot. @param person, face in pixels of the frame */
  add(frame: VideoFrame, person: Person | undefined, face: Float32Array | undefined): void {
    const { width, height } = this.#size;
    const planes = planesOf(frame.data, width, height);
    const distance = person ? this.#distance(person) : undefined;
    const lost = !person && this.#seenLately(frame.index);
    const sight = {
      frame: planes,
      distance: distance ?? plane(width / 2, height / 2, lost ? 0 : 1000),
      near: person ? (NEAR * skeletonOf(person.points).size) / 2 + 1.5 : 1,
    };
    let map = this.#plate.locate(sight);
    if (!map) {
      while (this.next());
      this.#plate.reset();
      map = this.#plate.locate(sight) as Affine;
    }
    this.#plate.remember(sight, map);
    this.#waiting.push({ frame, person, face, map, distance });
  }

  /** Ends a shot: draws all its frames, because the next one has another background and another person. */
  cut(): void {
    this.#plate.reset();
    this.#last = undefined;
    this.#drawer = undefined;
    this.#forgetPose();
  }

  #forgetPose(): void {
    this.#poser = undefined;
    this.#expression = undefined;
    this.#smoother = new PointSmoother();
    this.#inFront = new ThingsInFront();
    this.#sizes = [];
  }

  #seenLately(index: number): boolean {
    const recent = this.#waiting.findLast(({ person }) => person)?.frame.index ?? this.#last?.index;
    return recent !== undefined && index - recent <= 2 * MAX_BRIDGED;
  }

  /** Draws the oldest frame. @returns whether there was one */
  next(): boolean {
    this.#checkpoint();
    const entry = this.#waiting.shift();
    if (!entry) return false;
    const { frame } = entry;
    const person = entry.person ?? this.#bridged(frame.index);
    if (entry.person) this.#last = { person: entry.person, index: frame.index };
    if (person) {
      this.#draw({ ...entry, distance: entry.distance ?? this.#distance(person) }, person);
      this.drawn++;
    } else if (this.#poser) this.#forgetPose();
    this.#done(frame);
    return true;
  }

  /** Returns the interpolated person of a frame in which it was invisible, but visible shortly before and after. */
  #bridged(index: number): Person | undefined {
    const before = this.#last;
    const after = this.#waiting.find(({ person }) => person);
    if (!before || !after?.person || after.frame.index - before.index > MAX_BRIDGED + 1) return undefined;
    return between(before.person, after.person, (index - before.index) / (after.frame.index - before.index));
  }

  /** Returns the distance of each chroma pixel from the person. */
  #distance(person: Person): Plane {
    const [width, height] = [this.#size.width / 2, this.#size.height / 2];
    const bytes = maskInPicture(scaledMask(person.mask, 0.5), width, height);
    const free = plane(width, height);
    for (let i = 0; i < bytes.length; i++) free.data[i] = (bytes[i] as number) < 255 * COVERED ? 1 : 0;
    return distanceInside(free, false);
  }

  #draw({ frame, map, distance, face }: Waiting & { readonly distance: Plane }, person: Person): void {
    const { width, height } = this.#size;
    const points = this.#smoother.smooth(person.points, frame.ptsUs);
    const skeleton = skeletonOf(points);
    const planes = planesOf(frame.data, width, height);
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
    const original = kept || before ? frame.data.slice() : undefined;
    this.#plate.fill(planes, hole, map);
    this.#poser ??= new Poser(cutout, this.#size);
    const size = this.#usualSize(skeleton.size);
    const posed = this.#headPose(face, frame.ptsUs);
    const body = this.#poser.pose({ ...skeleton, size }, frame.ptsUs, posed?.share);
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
  }

  /** Returns the head's rotation and expression where the character shows a face. */
  #headPose(face: Float32Array | undefined, ptsUs: number): HeadPose | undefined {
    const known = this.#character.face;
    if (!this.#head || !known) return undefined;
    this.#expression ??= new ExpressionFollower(this.#head.portrait, mouthScaleOf(known.mouth));
    if (face) this.faces++;
    const ahead = this.#waiting.map((waiting) => waiting.face);
    return this.#expression.pose(face, ptsUs, ahead);
  }

  /** Returns the head to draw; the mirror image of a head stands for its back. */
  #headPatch(posed: HeadPose | undefined, mirror: 1 | -1): HeadPatch | undefined {
    if (!this.#head) return undefined;
    if (mirror < 0) return this.#head.behind();
    return posed && posed.share > 0 ? this.#head.posed(posed.pose) : this.#head.flat;
  }

  /** Returns the body size around this frame, because single frames measure it badly. */
  #usualSize(now: number): number {
    this.#sizes.push(now);
    if (this.#sizes.length > SIZES + 1) this.#sizes.shift();
    const around = this.#sizes.slice();
    for (const { person } of this.#waiting.slice(0, SIZES)) {
      if (person) around.push(skeletonOf(person.points).size);
    }
    around.sort((a, b) => a - b);
    return around[around.length >> 1] as number;
  }

  /** Returns the cut-out at about its drawn size; makes it again when the size differs much. */
  #cutoutFor(size: number, frame: Planes, distance: Plane): Cutout {
    const { picture, person, alpha } = this.#character;
    const wanted = Math.min(1.25 * size, MAX_OF_FRAME * this.#size.height);
    if (!this.#cutout || wanted > 1.4 * this.#asked) {
      this.#asked = wanted;
      const own = alpha ? { own: alpha } : {};
      this.#cutout = cutOut(picture, person, {
        size: wanted,
        colors: this.#colors,
        checkpoint: this.#checkpoint,
        ...own,
      });
      this.#drawer = undefined;
      this.#poser = undefined;
    }
    if (!this.#drawer) {
      this.#checkpoint();
      const inLight = toned(this.#cutout, toneFor(this.#cutout, frame, distance));
      this.#checkpoint();
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
