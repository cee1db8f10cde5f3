import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Picture } from '@semblance/engine-api/picture';
import { rgbToYuv } from '@semblance/engine-builtin/internal/animate/yuv';
import { yuvToRgb } from '@semblance/testkit/engine-builtin/yuv-to-rgb';
import { apertures } from '@semblance/testkit/quality/measures';
import type { Face } from '@semblance/vision/face-mesh';
import { FACE_OVAL } from '@semblance/vision/face-regions';
import type { PersonFinder } from '@semblance/vision/person';
import { maskInPicture } from '@semblance/vision/person-mask';
import type { Plane } from '@semblance/vision/plane/plane';
import sharp from 'sharp';
import { cell } from '../photo-swap/contact-sheet.ts';
import type { AnimationMeasures, MeasureName } from './animation-measures.ts';
import { areaOf, edges, REGION_NAMES, regionColours } from './face-areas.ts';
import type { Judges } from './judged-case.ts';
import { meshes } from './judged-clip.ts';
import { TEETH, teethArea } from './measures.ts';
import { shoulderJump, specks } from './moved-clothes.ts';
import { type Inside, insideOf, tonesOf } from './moved-mouth.ts';
import { backgroundChange, strayEdges } from './moved-picture.ts';

/** Interval between frames that are measured like pictures. */
const SAMPLED = 7;
/** Share of an opening up to which another one differs that is as wide. */
const ALIKE = 0.15;

/** Networks that judge what is animated. */
export interface AnimationJudges extends Judges {
  readonly people: PersonFinder;
}

/** An animated still that is to be judged. */
export interface Animation {
  readonly still: Picture;
  readonly frames: readonly Picture[];
  /** Whether the lips are told to be closed in a frame. */
  readonly closed: (frame: number) => boolean;
  /** What drives it, if anything is seen to drive it. */
  readonly driver?: { readonly frames: readonly Picture[]; readonly faces: readonly Face[] } | undefined;
}

/** A judged animation: its measures, its meshes, and the frame that shows the worst of each measure. */
export interface Judged {
  readonly measures: AnimationMeasures;
  readonly stillFace: Face;
  readonly faces: readonly Face[];
  readonly at: { readonly [key in MeasureName]?: number };
}

/** Measures an animation against its still. @throws Error when the still has no face */
export async function judgeAnimation(given: Animation, judges: AnimationJudges): Promise<Judged> {
  const { frames } = given;
  const still = asVideo(given.still);
  const animation = { ...given, still };
  const [stillFace] = await judges.finder.find(still, () => undefined);
  if (!stillFace) throw new Error('no face in the still');
  const faces = await meshes(frames, [], judges);
  const pictures = await picturesOf(animation, { stillFace, faces }, judges);
  const mouth = mouthsOf(animation, { stillFace, faces });
  const flicker = flickerBeyond(animation, faces);
  return {
    measures: {
      found: faces.length / frames.length,
      ...pictures.measures,
      ...mouth.measures,
      flicker: flicker.step,
    },
    stillFace,
    faces,
    at: { ...pictures.at, ...mouth.at, flicker: flicker.at, found: Math.max(0, faces.length - 1) },
  };
}

/** Returns a still as a video holds it, with half as many colours across and down. */
function asVideo({ width, height, data }: Picture): Picture {
  return {
    width,
    height,
    channels: 3,
    data: yuvToRgb(rgbToYuv(data as Uint8Array, width, height), width, height),
  };
}

interface Seen {
  readonly stillFace: Face;
  readonly faces: readonly Face[];
}

async function picturesOf({ still, frames }: Animation, { stillFace, faces }: Seen, judges: AnimationJudges) {
  const whole = await personIn(still, judges);
  const own = await judges.landmarks(still, stillFace);
  const measures = { background: 0, beside: 0, edges: 0, shoulders: 0 };
  const ownEdges = edges(still, areaOf(still, stillFace, [FACE_OVAL]));
  const [sharp, points]: [number[], number[]] = [[], []];
  const at = { background: 0, beside: 0, edges: 0, shoulders: 0, landmarks: 0 };
  let [distances, worst, count] = [0, 0, 0];
  for (let n = 0; n < faces.length; n += SAMPLED) {
    const [frame, face] = [frames[n] as Picture, faces[n] as Face];
    const distance = await judges.landmarks(frame, face);
    distances += distance;
    count++;
    if (distance > worst) [worst, at.landmarks] = [distance, n];
    sharp.push(edges(frame, areaOf(frame, face, [FACE_OVAL])) / ownEdges);
    const person = await personIn(frame, judges);
    // What is background is not known without the person.
    if (!whole || !person) continue;
    const moved = {
      ...{ still, frame },
      people: { still: whole, frame: person },
      faces: { still: stillFace, frame: face },
    };
    const { far: background, beside } = backgroundChange(moved);
    points.push(specks(moved));
    const values = {
      background,
      beside,
      edges: strayEdges(moved),
      shoulders: shoulderJump(moved),
    };
    for (const name of ['background', 'beside', 'edges', 'shoulders'] as const)
      if (values[name] > measures[name]) [measures[name], at[name]] = [values[name], n];
  }
  const measured = { sharpness: middle(sharp), specks: middle(points) };
  const landmarks = Math.max(0, distances / Math.max(1, count) - own);
  return { measures: { ...measures, ...measured, landmarks }, at };
}

function middle(values: number[]): number {
  return values.sort((a, b) => a - b)[values.length >> 1] ?? 0;
}

/** Returns what a person covers of a picture; undefined where none is seen. */
async function personIn(picture: Picture, { people }: AnimationJudges): Promise<Plane | undefined> {
  const { width, height } = picture;
  const person = await people.find(picture);
  if (!person) return undefined;
  const mask = maskInPicture(person.mask, width, height);
  return { width, height, data: Float32Array.from(mask, (value) => value / 255) };
}

function mouthsOf({ still, frames, closed }: Animation, { stillFace, faces }: Seen) {
  const tones = tonesOf(still, stillFace);
  const [ownTeeth, ownOpening] = [teethArea(still, stillFace), apertures(stillFace).mouth];
  const insides: (Inside & { n: number })[] = [];
  const alike: { ratio: number; n: number }[] = [];
  let [shut, shutAt] = [0, 0];
  for (const [n, face] of faces.entries()) {
    const frame = frames[n] as Picture;
    const inside = insideOf(tones, frame, face);
    if (inside) insides.push({ ...inside, n });
    const area = teethArea(frame, face);
    if (closed(n) && area - ownTeeth > shut) [shut, shutAt] = [area - ownTeeth, n];
    const isAlike = Math.abs(apertures(face).mouth - ownOpening) < ALIKE * ownOpening;
    if (ownTeeth > TEETH && isAlike) alike.push({ ratio: area / ownTeeth, n });
  }
  const high = (name: keyof Inside) =>
    insides.toSorted((a, b) => a[name] - b[name])[Math.floor(0.8 * (insides.length - 1))];
  const usual = alike.sort((a, b) => a.ratio - b.ratio)[alike.length >> 1];
  const [dark, bright, flat] = [high('dark'), high('bright'), high('flat')];
  return {
    measures: {
      dark: dark?.dark,
      bright: bright?.bright,
      flat: flat?.flat,
      shut,
      teeth: alike.length > 2 ? usual?.ratio : undefined,
    },
    at: {
      dark: dark?.n ?? 0,
      bright: bright?.n ?? 0,
      flat: flat?.n ?? 0,
      shut: shutAt,
      teeth: usual?.n ?? 0,
    },
  };
}

/** Regions whose colour neither speech nor blinks change, and over which no bridge of glasses lies. */
const STEADY = ['cheeks', 'under the eyes'];

/**
 * Returns how far a region's mean colour in a frame is from the middle of those before and after it, beyond the
 * driver's: of the regions the largest, of the frames the 95th percentile. What moves smoothly is none.
 */
function flickerBeyond({ frames, driver }: Animation, faces: readonly Face[]): { step: number; at: number } {
  const theirs = driver && unsteadiness(driver.frames, driver.faces);
  const all = unsteadiness(frames, faces).map((regions, i) => {
    const beyond = STEADY.map((name) => {
      const r = REGION_NAMES.indexOf(name);
      return (regions[r] as number) - (theirs?.[i]?.[r] ?? 0);
    });
    return { step: Math.max(0, ...beyond), at: i + 1 };
  });
  all.sort((a, b) => a.step - b.step);
  return all[Math.floor(0.95 * (all.length - 1))] ?? { step: 0, at: 0 };
}

/** Returns for each frame but the first and last how far each region's colour is from the middle of its neighbours. */
function unsteadiness(frames: readonly Picture[], faces: readonly Face[]): number[][] {
  const colours = faces.map((face, n) => regionColours(frames[n] as Picture, face));
  return colours.slice(1, -1).map((regions, i) =>
    regions.map((colour, r) => {
      const [before, after] = [colours[i]?.[r] as number[], colours[i + 2]?.[r] as number[]];
      return Math.hypot(...colour.map((v, c) => v - ((before[c] as number) + (after[c] as number)) / 2));
    }),
  );
}

/** Writes a still into a folder that is made, and returns its path. */
export async function writeStill(
  { picture: { width, height, data } }: { readonly picture: Picture },
  folder: string,
): Promise<string> {
  await mkdir(folder, { recursive: true });
  const path = join(folder, 'still.png');
  await sharp(data, { raw: { width, height, channels: 3 } })
    .png()
    .toFile(path);
  return path;
}

/** Measures of the mouth, which the contact sheet shows from near; all others need the shoulders too. */
const OF_MOUTH: readonly (MeasureName | undefined)[] = [
  'dark',
  'bright',
  'flat',
  'shut',
  'teeth',
  'smile',
  'pause',
];
/** Side of a picture of the contact sheet, in widths of the face. */
const SHOWN = { mouth: 1.1, whole: 3 } as const;

/** Returns still, driver and result at a frame; without a driver two frames of the result. */
export async function cellsOf(
  {
    still,
    frames,
    between,
    at,
    fault,
  }: {
    readonly still: Picture;
    readonly frames: readonly Picture[];
    readonly between?: { readonly frames: readonly Picture[]; readonly faces: readonly Face[] };
    readonly at: number;
    readonly fault: MeasureName | undefined;
  },
  { stillFace, faces }: Judged,
): Promise<Buffer[]> {
  const widths = OF_MOUTH.includes(fault) ? SHOWN.mouth : SHOWN.whole;
  const other = between ?? { frames, faces };
  const shown = [
    [still, stillFace],
    [other.frames[between ? at : 0], other.faces[between ? at : 0]],
    [frames[at], faces[at]],
  ] as const;
  const cells = shown.map(([picture, face]) => picture && face && cell(picture, face, widths));
  return (await Promise.all(cells)).filter((one) => one !== undefined);
}
