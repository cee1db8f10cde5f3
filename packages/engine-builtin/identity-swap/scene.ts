import type { VideoFrame } from '@semblance/media/types';
import { faceFromPoints } from '@semblance/vision/face-mesh';
import type { Person } from '@semblance/vision/person';
import { maskInPicture } from '@semblance/vision/person-mask';
import { distanceInside, type Plane, plane } from '@semblance/vision/plane/plane';
import { planesOf } from '../animate/yuv.ts';
import type { Colors } from '../video-swap/frame-part.ts';
import type { Actor } from './actor.ts';
import { BodyActor } from './body-actor.ts';
import { type Character, showsHead } from './character.ts';
import { frontInFrame, handIsNear } from './face-front.ts';
import { between, scaledMask } from './follow.ts';
import { putOver } from './front.ts';
import type { Affine } from './geometry.ts';
import { HeadActor } from './head-actor.ts';
import { BackgroundPlate } from './plate.ts';
import { skeletonOf } from './skeleton.ts';

/** Frames that are examined before one of them is drawn, because they show parts of its background. */
const AHEAD = 40;
/** Longest gap, in frames, over which an invisible person is interpolated. */
const MAX_BRIDGED = 15;
/** Width of the margin around the mask, in body sizes, outside which is certain background. */
const NEAR = 0.045;
/** Share of a pixel from which the mask counts it as person. */
const COVERED = 0.25;

interface Waiting {
  readonly frame: VideoFrame;
  readonly person: Person | undefined;
  /** Points of the person's face, in pixels of the frame. */
  readonly face: Float32Array | undefined;
  readonly cover: Plane | undefined;
  readonly map: Affine;
  readonly distance: Plane | undefined;
}

/** Replaces the person in a video's frames, in order. It holds back as many frames as it looks ahead. */
export class Scene {
  readonly #done: (frame: VideoFrame) => void;
  readonly #checkpoint: () => void;
  readonly #size: { readonly width: number; readonly height: number };
  readonly #plate: BackgroundPlate;
  #waiting: Waiting[] = [];
  #last: { readonly person: Person; readonly index: number } | undefined;
  readonly #actor: Actor;
  /** Frames in which the character replaces the person. */
  drawn = 0;

  /** Frames in which its head follows a face. */
  get faces(): number {
    return this.#actor.faces;
  }

  /** @param done receives the drawn frames in order */
  constructor(
    character: Character,
    done: (frame: VideoFrame) => void,
    video: { readonly width: number; readonly height: number; readonly color: Colors },
    checkpoint: () => void,
  ) {
    this.#checkpoint = checkpoint;
    this.#done = done;
    this.#size = { width: video.width, height: video.height };
    this.#plate = new BackgroundPlate(video.width, video.height);
    const stage = { ...this.#size, colors: video.color, plate: this.#plate, checkpoint };
    this.#actor = showsHead(character) ? new HeadActor(character, stage) : new BodyActor(character, stage);
  }

  /** Draws the oldest frame when enough later frames were examined. */
  advance(): void {
    if (this.#waiting.length > AHEAD) this.next();
  }

  /**
   * Adds the next frame of the shot. @param person, face in pixels of the frame
   * @param cover what is in front of the face
   */
  add(
    frame: VideoFrame,
    person: Person | undefined,
    face: Float32Array | undefined,
    cover?: Plane | undefined,
  ): void {
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
    this.#waiting.push({ frame, person, face, cover, map, distance });
  }

  /** Ends a shot: draws all its frames, because the next one has another background and another person. */
  cut(): void {
    this.#plate.reset();
    this.#last = undefined;
    this.#actor.cut();
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
      const { face, map } = entry;
      const { width, height } = this.#size;
      const planes = planesOf(frame.data, width, height);
      const front = this.#inFront(entry, person);
      const original = front && planesOf(frame.data.slice(), width, height);
      const drawn = this.#actor.draw({
        data: frame.data,
        planes,
        ptsUs: frame.ptsUs,
        person,
        face,
        map,
        distance: entry.distance ?? this.#distance(person),
        ahead: this.#waiting,
      });
      if (drawn && front && original) putOver(planes, original, front);
      if (drawn) this.drawn++;
    } else this.#actor.forget();
    this.#done(frame);
    return true;
  }

  /** Returns the share of each chroma pixel that stays in front of the face. */
  #inFront({ face: points, cover }: Waiting, person: Person): Plane | undefined {
    const face = points && faceFromPoints(points, 1);
    if (!face || !cover || (this.#actor instanceof BodyActor && handIsNear(person, face))) return undefined;
    return frontInFrame(cover, face, this.#size);
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
}
