import type { LeftReason } from '@semblance/engine-api/findings';
import { type FaceFinder, MAX_YAW, SUITABLE_SHARE, yaw } from '@semblance/vision/face-finder';
import type { Face } from '@semblance/vision/face-mesh';
import type { FaceRecogniser } from '@semblance/vision/face-recogniser';
import { withBystanders } from '../findings/face-counts.ts';
import { CutDetector, WARY_CUT_SHARE } from './cuts.ts';
import { type Colors, type Frame, type IndexedFrame, intoPart, outOfPart, wholeFrame } from './frame-part.ts';
import { cropsOfFrame } from './mesh-crop.ts';
import { People, type Person } from './people.ts';
import { follows, nearest, onOneFace, widestOf } from './same-face.ts';
import { LONGEST_GAP, type PlacedFace, Track } from './track.ts';
import { joinTrack } from './track-join.ts';

/** Score below which the mesh no longer lies on a face. */
const KEEP_SCORE = 0.5;
/** Smallest width of a face that is searched for, as a share of the frame's shorter side. */
const SMALLEST_SHARE = 0.08;
const SMALLEST = 30;
/**
 * At the start of a shot, faces of at least this width relative to the most prominent one are examined, because one
 * may be a known person.
 */
const KNOWN_SHARE = 0.35;
/** The same where all people are known before. */
const EVERYBODY_SHARE = 0.2;
/**
 * Smallest width and largest rotation at which a person can be recognised, and the further rotation from which the
 * face looks new.
 */
const TOLD_WIDTH = 36;
const TOLD_YAW = Math.PI / 4;
const NEW_TURN = Math.PI / 12;

/**
 * Tracks all suitable faces of a video, some frames at a time. The mesh is fitted from frame to frame. Faces are
 * searched after every cut and in the last frame of each run, and a found face is also tracked backwards through
 * the run, so that no visible face is missed. Suitability is decided once, when a face is found, as in Photo Swap:
 * the most prominent face and all that are at least 0.6 times as wide. So no face comes and goes with its size.
 * With a recogniser the decision holds as long as the person is recognised ({@link People}).
 */
export class FaceTracker {
  readonly #finder: FaceFinder;
  readonly #color: Colors;
  readonly #checkpoint: () => void;
  readonly #cuts: CutDetector;
  readonly #recogniser: (() => Promise<FaceRecogniser>) | undefined;
  readonly #people: People;
  #tracks: Track[] = [];
  #shotStart = 0;
  #nextId = 0;
  #emptySearches = 0;
  /** Number of tracked faces, and of shots. */
  found = 0;
  shots = 1;
  /** Why faces were left alone, in the search that left most of them. */
  left: readonly LeftReason[] = [];

  constructor(
    finder: FaceFinder,
    color: Colors,
    checkpoint: () => void,
    recogniser?: () => Promise<FaceRecogniser>,
    people = new People(),
  ) {
    this.#finder = finder;
    this.#color = color;
    this.#checkpoint = checkpoint;
    this.#recogniser = recogniser;
    this.#people = people;
    // Where all people are known before, a track that begins anew gets its person again.
    this.#cuts = new CutDetector(people.everybody ? WARY_CUT_SHARE : undefined);
  }

  /** Tracks faces through the next frames. @param before frames just before them, for gaps that began there */
  async follow(frames: readonly IndexedFrame[], before: readonly IndexedFrame[]): Promise<void> {
    const known = new Map([...before, ...frames].map((frame) => [frame.index, frame]));
    for (const [at, frame] of frames.entries()) {
      this.#checkpoint();
      const first = frame.index === 0;
      const cut = this.#isCut(frame);
      if (cut) this.#startShot(frame.index);
      else await this.#fitAll(frame, known);
      if (first || cut || at === frames.length - 1) await this.#search(frame, known, frames[0]?.index ?? 0);
    }
  }

  /**
   * Tracks faces into a frame without knowing later frames, for streams.
   * @param anew whether other faces may appear in other places than in the frame before, as after a pause
   * @param search how thoroughly faces are searched also without a cut: `quick` finds wide faces, and faces as wide
   * as the tracked ones
   * @returns whether the search still has to be made by {@link lookForOthers}: all tracked faces were found, so
   * this frame does not depend on it
   */
  async followLive(
    frame: IndexedFrame,
    anew: boolean,
    search: 'no' | 'quick' | 'thorough',
  ): Promise<boolean> {
    this.#checkpoint();
    const known = new Map([[frame.index, frame]]);
    const cut = this.#isCut(frame) || anew;
    if (cut && frame.index > 0) this.#startShot(frame.index);
    else await this.#fitAll(frame, known);
    const open = this.followed;
    const lost = open.some((track) => track.last < frame.index);
    const canWait = !cut && !lost && open.length > 0 && search === 'quick';
    if (cut || search === 'thorough') await this.#search(frame, known, frame.index);
    else if (lost || (search === 'quick' && !canWait)) {
      const widest = widestOf(open, frame.index);
      await this.#search(frame, known, frame.index, widest > 0 ? SUITABLE_SHARE * widest : Infinity);
    }
    this.forgetBefore(frame.index - LONGEST_GAP);
    return canWait;
  }

  /** Searches for further faces in the last frame given to {@link followLive}, and fits the tracked ones again. */
  async lookForOthers(frame: IndexedFrame): Promise<void> {
    const open = this.followed;
    if (await this.#seesOthers(frame, open))
      await this.#search(frame, new Map([[frame.index, frame]]), frame.index);
    else for (const track of open) await this.#learn(track, frame);
  }

  /**
   * Returns whether there may be other faces beside the tracked ones, which were all found; no mesh is fitted for
   * this.
   */
  #seesOthers(frame: IndexedFrame, open: readonly Track[]): Promise<boolean> {
    const smallest = SUITABLE_SHARE * widestOf(open, frame.index);
    const part = wholeFrame(frame, this.#color);
    const faces = open.flatMap((track) => track.predict(frame.index) ?? []);
    const here = faces.map((face) => intoPart(face, part));
    return this.#finder.seesOthers(part.picture, here, smallest / part.step, this.#checkpoint);
  }

  /** The tracked faces, including lost ones that may return. */
  get followed(): readonly Track[] {
    return this.#tracks.filter((track) => track.open);
  }

  /** Returns the faces to draw in a frame. Up to ten frames after it must have been tracked, as far as they exist. */
  facesIn(index: number): PlacedFace[] {
    return this.#tracks.flatMap((track) => track.placed(index) ?? []);
  }

  /** Forgets everything that frames from this one on do not need. */
  forgetBefore(index: number): void {
    this.#tracks = this.#tracks.filter((track) => track.open || track.last >= index);
    for (const track of this.#tracks) track.forgetBefore(index);
  }

  /** Ends the video after this frame. */
  end(index: number): void {
    for (const track of this.#tracks) if (track.open) track.cutAfter = index;
  }

  /**
   * After a cut, small and turned faces are searched as if for the first time, because a pause gives no hint of
   * them.
   */
  #isCut(frame: Frame): boolean {
    const cut = this.#cuts.isCut(frame);
    if (cut) this.#emptySearches = 0;
    return cut;
  }

  #startShot(index: number): void {
    for (const track of this.#tracks) {
      if (track.open) track.cutAfter = index - 1;
      track.open = false;
    }
    this.#shotStart = index;
    this.shots++;
  }

  async #fitAll(frame: IndexedFrame, known: ReadonlyMap<number, IndexedFrame>): Promise<void> {
    for (const track of this.#tracks) {
      if (!track.open) continue;
      const expected = track.predict(frame.index);
      const face = expected && (await this.#fit(frame, expected));
      if (face) joinTrack(track, frame.index, face, known);
      else if (frame.index - track.last > LONGEST_GAP) track.open = false;
    }
    this.#dropDoubles(frame.index);
  }

  async #fit(frame: Frame, expected: Face): Promise<Face | undefined> {
    this.#checkpoint();
    const face = await this.#finder.followFrom(cropsOfFrame(frame, this.#color), expected);
    if (face.score < KEEP_SCORE || Math.abs(yaw(face)) > MAX_YAW) return undefined;
    return follows(face, expected) ? face : undefined;
  }

  async #search(
    frame: IndexedFrame,
    frames: ReadonlyMap<number, IndexedFrame>,
    earliest: number,
    wide = 0,
  ): Promise<void> {
    const part = wholeFrame(frame, this.#color);
    const shorter = Math.min(part.picture.width, part.picture.height);
    const smallest = Math.max(SMALLEST, SMALLEST_SHARE * shorter, wide / part.step);
    const begins = frame.index === this.#shotStart && this.#recogniser;
    const least = begins ? KNOWN_SHARE : SUITABLE_SHARE;
    const share = this.#people.everybody ? EVERYBODY_SHARE : least;
    const open = this.#tracks.filter((track) => track.open);
    const tracked = open.flatMap((track) => track.predict(frame.index) ?? []);
    const known = tracked.map((face) => intoPart(face, part));
    let seen = await this.#finder.lookUpright(part.picture, smallest, this.#checkpoint, { share, known });
    if (seen.faces.length === 0 && open.length === 0 && wide === 0) {
      this.#emptySearches++;
      // Small, turned and upside-down faces cost many runs of the network, so they are searched ever more rarely.
      if (Number.isInteger(Math.log2(this.#emptySearches)))
        seen = await this.#finder.look(part.picture, this.#checkpoint);
    }
    const fresh: Face[] = [];
    for (const small of seen.faces) {
      const face = outOfPart(small, part);
      const match = nearest(open, face);
      if (!match) fresh.push(face);
      else if (match.last !== frame.index) {
        const fitted = await this.#fit(frame, face);
        if (fitted) joinTrack(match, frame.index, fitted, frames);
      }
    }
    for (const track of open) await this.#learn(track, frame);
    if (this.#people.everybody) for (const track of open) await this.#verify(track, frame);
    const newcomers = [];
    for (const face of fresh) newcomers.push({ face, look: await this.#describe(frame, face) });
    const chosen = this.#people.choose(newcomers, this.shots, {
      people: open.flatMap(({ person }) => person ?? []),
      widest: widestOf(open, frame.index),
    });
    const left = withBystanders(seen.left, newcomers.length - chosen.length);
    if (left.length > this.left.length) this.left = left;
    for (const { face, person } of chosen) {
      const fitted = await this.#fit(frame, face);
      if (fitted) await this.#begin(fitted, frame.index, frames, { earliest, person });
    }
    this.#dropDoubles(frame.index);
  }

  /** Returns the description of a face where it can be recognised. */
  async #describe(frame: Frame, face: Face): Promise<Float32Array | undefined> {
    if (!this.#recogniser) return undefined;
    const told = face.width >= TOLD_WIDTH && Math.abs(yaw(face)) <= TOLD_YAW;
    if (!told && !this.#people.everybody) return undefined;
    this.#checkpoint();
    return (await this.#recogniser()).describe(cropsOfFrame(frame, this.#color), face);
  }

  /** Describes a person again after a rotation, to recognise it after a cut. */
  async #learn(track: Track, frame: IndexedFrame): Promise<void> {
    const face = track.last === frame.index ? track.predict(frame.index) : undefined;
    if (!face || track.turns.some((turn) => Math.abs(turn - yaw(face)) < NEW_TURN)) return;
    const look = await this.#describe(frame, face);
    if (!look) return;
    track.turns.push(yaw(face));
    if (track.person) this.#people.learn(track.person, look);
    else track.person = this.#people.meet(look, this.shots);
  }

  /** Ends a track that has gone over to the face of somebody else. */
  async #verify(track: Track, frame: IndexedFrame): Promise<void> {
    const face = track.last === frame.index ? track.predict(frame.index) : undefined;
    const look = face && track.person && (await this.#describe(frame, face));
    if (look && track.person && this.#people.isAnother(track.person, look)) track.open = false;
  }

  /** Begins a track with a found face and tracks it back to where it appeared. */
  async #begin(
    face: Face,
    index: number,
    known: ReadonlyMap<number, IndexedFrame>,
    { earliest, person }: { earliest: number; person: Person | undefined },
  ): Promise<void> {
    const track = new Track(this.#nextId++, this.#shotStart);
    track.person = person;
    if (person) track.turns.push(yaw(face));
    track.set(index, { points: face.points, score: face.score, seen: 1 });
    let last = face;
    for (let back = index - 1; back >= Math.max(earliest, this.#shotStart); back--) {
      const frame = known.get(back);
      const fitted = frame && (await this.#fit(frame, last));
      if (!fitted) break;
      const taken = this.#tracks.some((other) => {
        const points = other.at(back)?.points;
        return points && onOneFace({ ...fitted, points }, fitted);
      });
      if (taken) break;
      track.set(back, { points: fitted.points, score: fitted.score, seen: 1 });
      last = fitted;
    }
    this.#tracks.push(track);
    this.found++;
    this.#emptySearches = 0;
  }

  /** Of two tracks on one face the older one goes on. */
  #dropDoubles(index: number): void {
    const here = this.#tracks.filter((track) => track.open && track.last === index);
    for (const [i, track] of here.entries()) {
      const face = track.predict(index) as Face;
      const older = here.slice(0, i).some((other) => {
        return other.open && onOneFace(other.predict(index) as Face, face);
      });
      if (older) track.open = false;
    }
  }
}
