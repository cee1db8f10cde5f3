import type { Picture } from '@semblance/engine-api/picture';
import { apertures } from '@semblance/testkit/quality/measures';
import type { Face } from '@semblance/vision/face-mesh';
import { FACE_OVAL, LEFT_EYE, LIPS_INNER, LIPS_OUTER, RIGHT_EYE } from '@semblance/vision/face-regions';
import { grow, type Plane } from '@semblance/vision/plane/plane';
import { lab, linear } from './cases/colour.ts';
import { areaOf } from './face-areas.ts';

/** Opening of a mouth, as a share of the distance of the eyes' outer corners, from which its inside is looked at. */
const OPEN = 0.06;
/** Least number of pixels of a mouth's inside that say something about its tones. */
const PIXELS = 40;

/** Width of the rim of the opening, as a share of the face's width: the mesh is as exact. */
const RIM = 0.008;
/** Least by which the inside is darker than the lips: on dark skin these are dark too. */
const LIPS_DARKER = 10;
/** Share of the lightness of the whites below which a tone is no tooth. */
const DARK = 0.5;

/** What the inside of an open mouth looks like. L* runs from 0 to 100. */
export interface Inside {
  /** By how much its darkest part is darker than all of the still's face, L*. */
  readonly dark: number;
  /** By how much its lightest part is lighter than the whites of the still's eyes and its teeth, L*. */
  readonly bright: number;
  /** Share of it that has one and the same dark tone, beyond that of the still's mouth. */
  readonly flat: number;
}

/** Returns the tones of an open mouth against the still's; undefined for one that is closed or small. */
export function insideOf(still: Tones, frame: Picture, face: Face): Inside | undefined {
  if (apertures(face).mouth < OPEN) return undefined;
  const mouth = areaOf(frame, face, [LIPS_INNER]);
  const inside = labsOf(frame, grow(mouth, -RIM * face.width));
  if (inside.length < PIXELS) return undefined;
  const lights = inside.map(([l]) => l);
  const whole = labsOf(frame, grow(mouth, RIM * face.width));
  return {
    dark: Math.max(0, still.darkest - ranked(lights, 0.05)),
    bright: Math.max(0, ranked(lights, 0.95) - still.white),
    flat: Math.max(0, oneTone(whole, still.inner) - still.flat),
  };
}

/** The range of tones of a still's face. */
export interface Tones {
  readonly darkest: number;
  readonly white: number;
  /** L* below which a tone is neither tooth nor lip. */
  readonly inner: number;
  /** Share of the opening of the mouth that has one dark tone. */
  readonly flat: number;
}

export function tonesOf(still: Picture, face: Face): Tones {
  const lights = (mask: Plane): number[] => labsOf(still, mask).map(([l]) => l);
  const own = lights(areaOf(still, face, [FACE_OVAL]));
  const whites = [
    lights(areaOf(still, face, [RIGHT_EYE, LEFT_EYE])),
    // The mesh often runs through the teeth.
    lights(grow(areaOf(still, face, [LIPS_INNER]), 0.02 * face.width)),
  ];
  const white = Math.max(...whites.map((list) => ranked(list, 0.97)));
  const lips = areaOf(still, face, [LIPS_OUTER]);
  const opening = grow(areaOf(still, face, [LIPS_INNER]), 2 * RIM * face.width);
  for (let i = 0; i < lips.data.length; i++) if (opening.data[i]) lips.data[i] = 0;
  const inner = Math.min(DARK * white, ranked(lights(lips), 0.5) - LIPS_DARKER);
  const mouth = labsOf(still, grow(areaOf(still, face, [LIPS_INNER]), RIM * face.width));
  const isOpen = apertures(face).mouth >= OPEN && mouth.length >= PIXELS;
  return { darkest: ranked(own, 0.003), white, inner, flat: isOpen ? oneTone(mouth, inner) : 0 };
}

type Lab = readonly [number, number, number];

function labsOf(picture: Picture, mask: Plane): Lab[] {
  const out: Lab[] = [];
  for (let i = 0; i < mask.data.length; i++)
    if (mask.data[i]) out.push(lab([0, 1, 2].map((c) => linear(picture.data[i * 3 + c] as number))));
  return out;
}

function ranked(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.round((sorted.length - 1) * share)] ?? 0;
}

/**
 * Distance of colours that count as one tone, Lab: that of grain. Of five mouths, drawn with a tongue before a throat,
 * none has more than 0.2 in one tone; filled with one tone and grain they have 0.39 to 0.62.
 */
const ONE_TONE = 3;

/** Returns the largest share of colours that lie close to one of them that is dark. */
function oneTone(colours: readonly Lab[], darker: number): number {
  const dark = colours.filter(([l]) => l < darker);
  let most = 0;
  // A few of them as middles find every tone that covers much.
  const step = Math.max(1, Math.floor(dark.length / 150));
  for (let k = 0; k < dark.length; k += step) {
    const [l, a, b] = dark[k] as Lab;
    const count = dark.filter(
      (other) => Math.hypot(other[0] - l, other[1] - a, other[2] - b) < ONE_TONE,
    ).length;
    most = Math.max(most, count / colours.length);
  }
  return most;
}
