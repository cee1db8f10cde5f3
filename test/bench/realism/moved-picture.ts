import type { Picture } from '@semblance/engine-api/picture';
import { type Face, pointOf } from '@semblance/vision/face-mesh';
import { FACE_SIDES } from '@semblance/vision/face-regions';
import { distanceInside, grow, type Plane, plane } from '@semblance/vision/plane/plane';
import { eyeDistance } from './identity-measures.ts';

/** A still and one frame of its animation, of the same size. */
export interface Moved {
  readonly still: Picture;
  readonly frame: Picture;
  /** The person in either, 1 inside. */
  readonly people: { readonly still: Plane; readonly frame: Plane };
  readonly faces: { readonly still: Face; readonly frame: Face };
}

/** Distance from the person, in eye distances, from which nothing moves with it, and that of its soft outline. */
const FAR = 0.6;
const OUTLINE = 0.12;
/** Side of the squares in which a change is measured, in eye distances: far from the person, and beside it. */
const SQUARE = { far: 0.25, beside: 0.12 } as const;
/** Shifts of the whole picture that are tried, in pixels. */
const SHIFT = 3;

/**
 * Returns the largest mean change of a square of the background that both pictures show, in levels: far from the
 * person, and beside it. The frame is compared with the still as a whole, shifted as it fits best, so that a moved
 * camera is none.
 */
export function backgroundChange({ still, frame, people, faces }: Moved): { far: number; beside: number } {
  const iod = eyeDistance(faces.still);
  const heads = [
    headOf(people.still, faces.still, COVERED.maybe),
    headOf(people.frame, faces.frame, COVERED.maybe),
  ];
  const shown = plane(still.width, still.height, 1);
  for (let i = 0; i < shown.data.length; i++) if (heads.some(({ data }) => data[i])) shown.data[i] = 0;
  const away = distanceInside(shown, false);
  const beyond = (from: number, to = Infinity): Plane => ({
    ...shown,
    data: away.data.map((value) => (value > from * iod && value <= to * iod ? 1 : 0)),
  });
  const far = beyond(FAR);
  const shift = bestShift(still, frame, far);
  const known = coloursOf(still, far);
  const near = above(beyond(OUTLINE, FAR), faces, -0.2);
  const beside = ofColours(frame, known, ofColours(still, known, near));
  const side = (share: number): number => Math.max(6, Math.round(share * iod));
  return {
    far: changeWithin(far, { still, frame, shift, side: side(SQUARE.far) }),
    beside: changeWithin(beside, {
      still,
      frame,
      shift,
      side: side(SQUARE.beside),
    }),
  };
}

/** Bits of a channel that tell colours apart, and the least number of pixels that make one a colour of an area. */
const BITS = 4;
const FEW = 4;

/** Returns 1 for the colours of an area, and for those beside them. */
function coloursOf({ data }: Picture, area: Plane): Uint8Array {
  const side = 1 << BITS;
  const counts = new Uint32Array(side ** 3);
  for (let i = 0; i < area.data.length; i++)
    if (area.data[i]) counts[colourAt(data, i)] = (counts[colourAt(data, i)] as number) + 1;
  const out = new Uint8Array(side ** 3);
  for (const [at, count] of counts.entries()) {
    if (count < FEW) continue;
    const [r, g, b] = [at >> (2 * BITS), (at >> BITS) & (side - 1), at & (side - 1)];
    for (let x = Math.max(0, r - 1); x <= Math.min(side - 1, r + 1); x++)
      for (let y = Math.max(0, g - 1); y <= Math.min(side - 1, g + 1); y++)
        for (let z = Math.max(0, b - 1); z <= Math.min(side - 1, b + 1); z++)
          out[(((x << BITS) | y) << BITS) | z] = 1;
  }
  return out;
}

function colourAt(data: Picture['data'], i: number): number {
  const bits = (c: number): number => (data[i * 3 + c] as number) >> (8 - BITS);
  return (((bits(0) << BITS) | bits(1)) << BITS) | bits(2);
}

/** Returns the pixels of a mask that have known colours: loose hair and earrings, which move with the head, do not. */
function ofColours({ data }: Picture, known: Uint8Array, mask: Plane): Plane {
  return { ...mask, data: mask.data.map((value, i) => (known[colourAt(data, i)] ? value : 0)) };
}

export interface Shift {
  readonly dx: number;
  readonly dy: number;
}

/** Returns the largest mean change of a square that mostly lies within a mask. */
function changeWithin(
  mask: Plane,
  {
    still,
    frame,
    shift: { dx, dy },
    side,
  }: { readonly still: Picture; readonly frame: Picture; readonly shift: Shift; readonly side: number },
): number {
  const { width, height } = still;
  let most = 0;
  for (let top = SHIFT; top + side + SHIFT <= height; top += side >> 1)
    for (let left = SHIFT; left + side + SHIFT <= width; left += side >> 1) {
      let [sum, count] = [0, 0];
      for (let y = top; y < top + side; y++)
        for (let x = left; x < left + side; x++) {
          if (!mask.data[y * width + x]) continue;
          const [i, j] = [(y * width + x) * 3, ((y + dy) * width + x + dx) * 3];
          for (let c = 0; c < 3; c++)
            sum += Math.abs((frame.data[j + c] as number) - (still.data[i + c] as number)) / 3;
          count++;
        }
      if (count > 0.6 * side * side) most = Math.max(most, sum / count);
    }
  return most;
}

/** Share of a pixel that a person covers from which it may be, and from which it surely is the person's. */
const COVERED = { maybe: 0.25, surely: 0.5 } as const;
/** Radius of the circles that hold the ears, in eye distances: masks of people often lack them. */
const EAR = 0.55;

/** Returns 1 where a person is, with the ears. */
function headOf(person: Plane, { points }: Face, least: number): Plane {
  const { width, height } = person;
  const reach = EAR * eyeDistance({ points });
  const ears = FACE_SIDES.map((i) => pointOf(points, i));
  const out = plane(width, height);
  for (let y = 0; y < height; y++)
    for (let x = 0; x < width; x++) {
      const i = y * width + x;
      const onEar = ears.some((ear) => Math.hypot(x - ear.x, y - ear.y) < reach);
      if (onEar || (person.data[i] as number) > least) out.data[i] = 1;
    }
  return out;
}

/** Returns the part of a mask above both chins, or a distance below them in eye distances. */
function above(mask: Plane, { still, frame }: Moved['faces'], below: number): Plane {
  const chin = Math.min(pointOf(still.points, 152).y, pointOf(frame.points, 152).y);
  const end = Math.max(0, Math.round(chin + below * eyeDistance(still))) * mask.width;
  return { ...mask, data: mask.data.map((value, i) => (i < end ? value : 0)) };
}

/** Returns the shift of a frame against its still that explains most of it within a mask. */
function bestShift(still: Picture, frame: Picture, mask: Plane): Shift {
  const { width, height } = still;
  let best = { dx: 0, dy: 0, sum: Infinity };
  for (let dy = -SHIFT; dy <= SHIFT; dy++)
    for (let dx = -SHIFT; dx <= SHIFT; dx++) {
      let sum = 0;
      for (let y = SHIFT; y < height - SHIFT; y += 2)
        for (let x = SHIFT; x < width - SHIFT; x += 2) {
          const i = y * width + x;
          if (!mask.data[i]) continue;
          sum += Math.abs(
            (frame.data[(i + dy * width + dx) * 3 + 1] as number) - (still.data[i * 3 + 1] as number),
          );
        }
      // Noise must not move a picture.
      if (sum < 0.97 * best.sum || (dx === 0 && dy === 0 && sum <= best.sum)) best = { dx, dy, sum };
    }
  return best;
}

/** The band around the person in which stray edges are looked for, in eye distances from its outline. */
const BAND = { from: 0.1, to: 0.9 } as const;
/** Distance over which an edge of the still's background, and one of its clothes, explains one in the frame. */
const EXPLAINS = { background: 0.35, clothes: 0.2 } as const;
/** Distance from the middle of the neck at which clothes are beside it, in eye distances. */
const COLLAR = 0.7;
/** Step between pixels on both sides of a stray edge, in levels. */
const EDGE = 14;

/**
 * Returns the length of edges in the background beside the head that the still does not have nearby, in eye
 * distances. Edges of the head itself are none: it is left out of the still, and with a margin of the frame. Shoulders
 * may lean.
 */
export function strayEdges({ still, frame, people, faces }: Moved): number {
  const { width, height } = still;
  const iod = eyeDistance(faces.still);
  const own = steps(still);
  const clothes = plane(width, height);
  const person = grow(headOf(people.still, faces.still, COVERED.surely), BAND.from * iod);
  const chin = pointOf(faces.still.points, 152);
  for (let i = 0; i < own.data.length; i++) {
    if (!person.data[i]) continue;
    const shoulder = i / width > chin.y && Math.abs((i % width) - chin.x) > COLLAR * iod;
    if (shoulder) clothes.data[i] = own.data[i] as number;
    own.data[i] = 0;
  }
  const behind = greatest(own, Math.round(EXPLAINS.background * iod));
  const worn = greatest(clothes, Math.round(EXPLAINS.clothes * iod));
  const head = headOf(people.frame, faces.frame, COVERED.maybe);
  const within = grow(head, BAND.from * iod);
  const band = above(grow(head, BAND.to * iod), faces, 0.3);
  const now = steps(frame);
  let count = 0;
  for (let i = 0; i < width * height; i++) {
    if (within.data[i] || !band.data[i]) continue;
    const explained = Math.max(behind.data[i] as number, worn.data[i] as number);
    if ((now.data[i] as number) - explained > EDGE) {
      count++;
    }
  }
  // Each edge is seen from both of its sides.
  return count / 2 / iod;
}

/** Returns the largest step of a channel between the neighbours of each pixel, smoothed over three across the step. */
function steps({ width, height, data }: Picture): Plane {
  const out = plane(width, height);
  const at = (x: number, y: number, c: number): number => data[(y * width + x) * 3 + c] as number;
  for (let y = 1; y < height - 1; y++)
    for (let x = 1; x < width - 1; x++) {
      let most = 0;
      for (let c = 0; c < 3; c++) {
        let [across, down] = [0, 0];
        for (const k of [-1, 0, 1]) {
          across += at(x + 1, y + k, c) - at(x - 1, y + k, c);
          down += at(x + k, y + 1, c) - at(x + k, y - 1, c);
        }
        most = Math.max(most, Math.hypot(across, down) / 3);
      }
      out.data[y * width + x] = most;
    }
  return out;
}

/** Returns the largest value within a square around each pixel. */
export function greatest(source: Plane, radius: number): Plane {
  const { width, height } = source;
  const pass = (from: Plane, step: number, length: number): Plane => {
    const out = plane(width, height);
    for (let i = 0; i < out.data.length; i++) {
      const place = step === 1 ? i % width : Math.floor(i / width);
      const [low, high] = [Math.max(0, place - radius), Math.min(length - 1, place + radius)];
      let most = 0;
      for (let p = low; p <= high; p++) most = Math.max(most, from.data[i + (p - place) * step] as number);
      out.data[i] = most;
    }
    return out;
  };
  return pass(pass(source, 1, width), width, height);
}
