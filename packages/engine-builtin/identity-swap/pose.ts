import { smoothstep } from '@semblance/vision/plane/plane';
import { OneEuroFilter } from '../motion-transfer/one-euro.ts';
import type { Cutout } from './cutout.ts';
import {
  type Affine,
  add,
  boneMap,
  clamp,
  cross,
  dot,
  length,
  mix,
  sub,
  times,
  unit,
  type Vec,
} from './geometry.ts';
import { BONES, type BonePlaces, boneOf, HEAD, type Layer } from './puppet.ts';
import { type Joint, LIMBS, type Limb, type Skeleton } from './skeleton.ts';

/** Depth of a body relative to its width: it defines how narrow a body gets when seen from the side. */
const DEPTH = 0.5;
/** Largest stretch of a bone, relative to its own length at the drawn scale. */
const STRETCH: Readonly<Record<'arm' | 'leg', number>> = { arm: 1.35, leg: 1.6 };
/** Largest shift of the nose over the face, in head radii. Beyond it, sides become visible that no picture has. */
const MAX_TURN = { x: 0.28, y: 0.14 } as const;
/** Share of the nose's shift that the face around it follows; the nose stands out farther. */
const TURN_SHARE = 0.6;
/** Smallest confidence of a nose that determines the length of a neck. */
const LEAST_SURE = 0.7;
/** Joint confidence at which a limb appears and disappears. */
const HIDDEN = 0.2;
const SHOWN = 0.4;

export interface PosedBody extends BonePlaces {
  /** Frame pixels per cut-out pixel. */
  readonly scale: number;
  /** 1 as the character's picture shows it, -1 from behind (its mirror image). */
  readonly mirror: 1 | -1;
  /** Layers to draw, the farthest first. */
  readonly order: readonly Layer['part'][];
}

/** Moves the bones of a cut-out to the bones of a person in the video, frame by frame. */
export class Poser {
  readonly #own: Skeleton;
  readonly #cutout: Cutout;
  readonly #frame: { readonly width: number; readonly height: number };
  readonly #sizes = new OneEuroFilter({ atRest: 0.3, withSpeed: 2 });
  readonly #turns = new OneEuroFilter({ atRest: 1.2, withSpeed: 6 });
  #facing: 1 | -1 | undefined;
  #neck: number | undefined;
  readonly #seen: Partial<Record<Limb, number>> = {};
  readonly #shown: Partial<Record<Limb, boolean>> = {};
  readonly #behind: Partial<Record<Limb, boolean>> = {};

  /** @param frame size of the frames */
  constructor(cutout: Cutout, frame: { readonly width: number; readonly height: number }) {
    this.#frame = frame;
    this.#cutout = cutout;
    this.#own = cutout.skeleton;
  }

  /** @param faceShare share of the head that already follows the face; the body points turn only the rest */
  pose(of: Skeleton, ptsUs: number, faceShare = 0): PosedBody {
    const own = this.#own;
    const logSize = this.#sizes.filter([Math.log(of.size / own.size)], ptsUs)[0] as number;
    const scale = Math.exp(logSize);
    const facing = this.#turn(of);
    const torso = torsoMap(own, of, scale, facing);
    const mirror = (facing * own.facing) as 1 | -1;
    const maps: (Affine | undefined)[] = new Array(BONES).fill(undefined);
    maps[HEAD] = this.#head(of, torso, scale, mirror);
    const turn = times(this.#turnOfHead(of, mirror, ptsUs), 1 - faceShare);
    const shown: Limb[] = [];
    const hidden: Limb[] = [];
    for (const limb of LIMBS) {
      const reach = this.#cutout.reach[limb];
      if (reach === 0) continue;
      const bones = limbMaps(own, of, limb, { torso, scale, mirror });
      bones.slice(0, reach).forEach((map, k) => {
        maps[boneOf(limb, k)] = map;
      });
      // Legs hidden by a table must not be drawn in front of it. Invisible arms are mostly behind the body.
      const isSeen = this.#isShown(limb, of);
      if (isSeen || limb.endsWith('Arm')) shown.push(limb);
      if (!isSeen) hidden.push(limb);
    }
    return { torso, maps, turn, scale, mirror, order: this.#order(of, shown, hidden) };
  }

  /** Decides which way the body faces; an edge-on body keeps its former direction. */
  #turn({ facing, shoulderSide, hipSide, shoulders, hips, size }: Skeleton): 1 | -1 {
    const across = Math.abs(cross(unit(sub(shoulders, hips)), add(shoulderSide, hipSide)));
    if (this.#facing === undefined || across > 0.16 * size) this.#facing = facing;
    return this.#facing;
  }

  #head(of: Skeleton, torso: (p: Vec) => Vec, scale: number, mirror: number): Affine {
    const own = this.#own;
    // The head and neck have the character's length and the person's direction.
    const theirs = length(sub(of.head, of.shoulders)) / of.size;
    // The height of a hidden head is only guessed.
    const learning = of.noseSeen > LEAST_SURE ? 0.02 : 0;
    this.#neck = this.#neck === undefined ? theirs : this.#neck + learning * (theirs - this.#neck);
    const ratio = clamp(
      length(sub(own.head, own.shoulders)) / own.size / Math.max(0.05, this.#neck),
      0.6,
      1.8,
    );
    const at = add(torso(own.shoulders), times(sub(of.head, of.shoulders), ratio));
    return boneMap({ a: own.head, axis: own.headDown }, { a: at, axis: of.headDown }, scale, scale * mirror);
  }

  /** Returns how much farther to the right and down the nose is than on the picture, in head radii. */
  #turnOfHead(of: Skeleton, mirror: number, ptsUs: number): Vec {
    const own = this.#own.turn;
    const [x, y] = this.#turns.filter(
      [
        clamp(TURN_SHARE * (mirror * of.turn.x - own.x), -MAX_TURN.x, MAX_TURN.x),
        clamp(TURN_SHARE * (of.turn.y - own.y), -MAX_TURN.y, MAX_TURN.y),
      ],
      ptsUs,
    );
    return { x: x as number, y: y as number };
  }

  #isShown(limb: Limb, of: Skeleton): boolean {
    const [, bend, end] = of.limbs[limb];
    // Nothing hides what lies beyond the border of the frame.
    const { width, height } = this.#frame;
    const beyond = [bend, end].some(({ x, y }) => x < 0 || y < 0 || x >= width || y >= height);
    const now = beyond ? 1 : Math.max(bend.seen, end.seen);
    const seen = (this.#seen[limb] ?? now) + 0.25 * (now - (this.#seen[limb] ?? now));
    this.#seen[limb] = seen;
    const before = this.#shown[limb] ?? seen > (HIDDEN + SHOWN) / 2;
    this.#shown[limb] = before ? seen > HIDDEN : seen > SHOWN;
    return this.#shown[limb] as boolean;
  }

  /** Orders the layers: far legs, then arms behind the trunk, the trunk, and arms in front of it. */
  #order(of: Skeleton, shown: readonly Limb[], hidden: readonly Limb[]): Layer['part'][] {
    const depth = (limb: Limb): number => {
      const [, bend, end] = of.limbs[limb];
      return (bend.z + end.z) / 2;
    };
    const behind = (limb: Limb): boolean => {
      const by = (depth(limb) - of.depth) / of.size;
      const was = this.#behind[limb] ?? by > 0.35;
      this.#behind[limb] = was ? by > 0.2 : by > 0.4;
      return this.#behind[limb] as boolean;
    };
    const arms = shown.filter((limb) => limb.endsWith('Arm'));
    const far = arms.filter((limb) => behind(limb) || hidden.includes(limb));
    const legs = shown.filter((limb) => limb.endsWith('Leg')).sort((a, b) => depth(b) - depth(a));
    const near = arms.filter((limb) => !far.includes(limb)).sort((a, b) => depth(b) - depth(a));
    return [...far, ...legs, 'trunk', ...near];
  }
}

/** Maps places of the cut-out's torso to the frame: the person's spine, the character's width. */
function torsoMap(own: Skeleton, of: Skeleton, scale: number, facing: 1 | -1): (p: Vec) => Vec {
  const spine = sub(own.shoulders, own.hips);
  const height = length(spine);
  const up = unit(spine);
  const left = toLeft(up, own.facing);
  const seen = sub(of.shoulders, of.hips);
  const seenUp = unit(seen);
  const seenLeft = toLeft(seenUp, facing);
  const long = clamp(length(seen) / Math.max(1, height * scale), 0.35, 1.3) * height * scale;
  // If the drawn spine is shorter or longer than the visible one, its middle stays in place.
  const hips = sub(mix(of.hips, of.shoulders, 0.5), times(seenUp, long / 2));
  const width = (side: Vec, mine: Vec): number => length(side) / Math.max(1, scale * length(mine));
  const broad = 0.7 * width(of.shoulderSide, own.shoulderSide) + 0.3 * width(of.hipSide, own.hipSide);
  const across = scale * clamp(broad, DEPTH, 1.05);
  // A tilt of shoulders or hips is visible only from the front or from behind.
  const front = smoothstep(0.45, 0.85, broad);
  const tilt = (side: Vec, mine: Vec): number =>
    front *
    clamp(angleFrom(seenLeft, side) * facing - angleFrom(left, mine) * own.facing, -0.5, 0.5) *
    facing;
  const hipTilt = tilt(of.hipSide, own.hipSide);
  const shoulderTilt = tilt(of.shoulderSide, own.shoulderSide);
  return (p) => {
    const d = sub(p, own.hips);
    const v = dot(d, up) / height;
    const u = dot(d, left);
    const angle = hipTilt + (shoulderTilt - hipTilt) * clamp(v, 0, 1);
    const [sin, cos] = [Math.sin(angle), Math.cos(angle)];
    const x = cos * seenLeft.x - sin * seenLeft.y;
    const y = sin * seenLeft.x + cos * seenLeft.y;
    return {
      x: hips.x + v * long * seenUp.x + u * across * x,
      y: hips.y + v * long * seenUp.y + u * across * y,
    };
  };
}

/** Returns the direction of the person's own left, across the spine. */
function toLeft(up: Vec, facing: 1 | -1): Vec {
  return { x: -facing * up.y, y: facing * up.x };
}

/** Returns the angle between two lines, in -π/2…π/2; the direction along a line does not matter. */
function angleFrom(from: Vec, to: Vec): number {
  const sin = cross(from, to);
  const cos = dot(from, to);
  return cos < 0 ? Math.atan2(-sin, -cos) : Math.atan2(sin, cos);
}

function limbMaps(
  own: Skeleton,
  of: Skeleton,
  limb: Limb,
  { torso, scale, mirror }: { torso: (p: Vec) => Vec; scale: number; mirror: number },
): Affine[] {
  const mine = own.limbs[limb];
  const other = own.limbs[opposite(limb)];
  const seen = of.limbs[limb];
  const isArm = limb.endsWith('Arm');
  const root = torso(mine[0]);
  // When the character's shoulder is elsewhere, the limb returns to the person's limb towards its end.
  const off = sub(root, seen[0]);
  const most = (k: number): number => {
    const bone = (joints: readonly Joint[]): number => length(sub(joints[k + 1] as Vec, joints[k] as Vec));
    return STRETCH[isArm ? 'arm' : 'leg'] * scale * Math.max(bone(mine), bone(other));
  };
  const within = (from: Vec, to: Vec, limit: number): Vec => {
    const d = sub(to, from);
    const far = length(d);
    return far <= limit ? to : add(from, times(d, limit / far));
  };
  const bend = within(root, add(seen[1], times(off, 0.5)), most(0));
  const end = within(bend, isArm ? add(seen[2], times(off, 0.2)) : seen[2], most(1));
  const joints = [root, bend, end];
  const maps: Affine[] = [];
  for (const k of [0, 1] as const) {
    const from = sub(mine[k + 1] as Vec, mine[k] as Vec);
    const to = sub(joints[k + 1] as Vec, joints[k] as Vec);
    const along = clamp(length(to) / Math.max(1, length(from)), 0.08 * scale, 3 * scale);
    maps.push(
      boneMap({ a: mine[k] as Vec, axis: from }, { a: joints[k] as Vec, axis: to }, along, scale * mirror),
    );
  }
  const from = sub(mine[3], mine[2]);
  const tip = sub(seen[3], seen[2]);
  const before = unit(sub(end, bend));
  // A hand with low confidence continues the direction of its arm.
  const sure = smoothstep(0.2, 0.6, seen[3].seen);
  const axis = isArm ? add(times(before, (1 - sure) * length(tip)), times(tip, sure)) : tip;
  const along = clamp(length(tip) / Math.max(1, length(from)), 0.6 * scale, 1.2 * scale);
  maps.push(boneMap({ a: mine[2], axis: from }, { a: end, axis }, along, scale * mirror));
  return maps;
}

function opposite(limb: Limb): Limb {
  return LIMBS[LIMBS.indexOf(limb) ^ 1] as Limb;
}
