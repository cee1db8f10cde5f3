import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { Picture } from '@semblance/engine-api/picture';
import { videoSwap } from '@semblance/engine-builtin/internal/video-swap/video-swap';
import { prepareSource } from '@semblance/engine-builtin/swap/source-face';
import type { Media } from '@semblance/media/types';
import { regionToRgb } from '@semblance/media/yuv';
import { COLOR, cropOf, makeClip, type Scene } from '@semblance/testkit/engine-builtin/video-swap/clips';
import { cropsOf, type Face, faceFromPoints } from '@semblance/vision/face-mesh';
import { type CropTransform, toCrop, toPicture } from '@semblance/vision/picture';
import { grow, plane } from '@semblance/vision/plane/plane';
import sharp from 'sharp';
import { figure } from '../lib/section.ts';
import { cell } from '../photo-swap/contact-sheet.ts';
import type { Case } from './case.ts';
import { movedAlone, placedLike, type Seen } from './drawn-swap.ts';
import { edges, REGION_NAMES, regionColours } from './face-areas.ts';
import { type Judges, verdict } from './judged-case.ts';
import { type Measures, measure } from './measures.ts';

/** Size of clips. */
const SIZE = { width: 480, height: 480 };
/** Interval between frames that are measured like pictures. */
const SAMPLED = 7;
/** Most that {@link flickerOf} may be. */
export const MOST_FLICKER = 2.5;

/** Frames before and after one over which its mesh is smoothed. */
const REACH = 2;

/** A clip that is to be swapped and judged. */
export interface Clip {
  readonly kind: string;
  readonly label: string;
  readonly source: Picture;
  readonly scenes: readonly Scene[];
}

/** Swaps a face in a clip by the whole of Video Swap, and measures frames and flicker. */
export async function judgeClip(clip: Clip, judges: Judges, media: Media, folder: string): Promise<Case> {
  const { kind, label, source } = clip;
  await mkdir(folder, { recursive: true });
  const [video, face] = [join(folder, 'clip.mp4'), join(folder, 'face.png')];
  await makeClip(media, { path: video, ...SIZE, scenes: clip.scenes });
  const { width, height } = source;
  await sharp(source.data, { raw: { width, height, channels: 3 } })
    .png()
    .toFile(face);
  const signal = new AbortController().signal;
  const nothing = () => undefined;
  const tools = { finder: judges.finder, signal, checkpoint: nothing, onProgress: nothing };
  const { outputPath } = await videoSwap({ video, face, outputDir: folder }, media, tools);
  const before = await framesOf(media, video);
  const after = await framesOf(media, outputPath);
  const faces = await meshes(before, clip.scenes, judges);
  const [from] = await judges.finder.find(source, nothing);
  if (!from) throw new Error(`no face in the source of ${label}`);
  const seen = { picture: source, face: from };
  let worst: { measures: Measures; at: number; by: number } | undefined;
  let place = (face: Face): Face => face;
  for (let at = 0; at < faces.length; at += SAMPLED) {
    const frame = { picture: before[at] as Picture, face: faces[at] as Face };
    const { measures, placed } = await measuredFrame(frame, after[at] as Picture, seen, judges);
    if (at === 0) place = placed;
    const by = verdict(measures).worst;
    if (!worst || by > worst.by) worst = { measures, at, by };
  }
  if (!worst) throw new Error(`no face in the clip of ${label}`);
  const { step: flicker, at: jump, region } = flickerOf(before, after, faces, faces.map(place));
  const flickers = flicker > MOST_FLICKER;
  const frames = verdict(worst.measures);
  const shown = flickers ? jump : worst.at;
  return {
    kind,
    label: `${label}, frame ${shown}`,
    measures: worst.measures,
    flicker,
    likeness: undefined,
    worst: Math.max(frames.worst, flicker / MOST_FLICKER - 1, 0),
    faults: [...(flickers ? [`flicker ${figure(flicker)} (${region})`] : []), ...frames.faults],
    cells: [
      await cell(source, from),
      await cell(before[shown] as Picture, faces[shown] as Face),
      await cell(after[shown] as Picture, faces[shown] as Face),
    ],
  };
}

/**
 * Compares a frame with the result, and with the frame that has moved alike and is otherwise unchanged.
 * @returns the measures, and what places the mesh of any frame where the result shows the new features
 */
async function measuredFrame(
  { picture: before, face }: Seen,
  after: Picture,
  source: Seen,
  { finder, landmarks }: Judges,
): Promise<{ readonly measures: Measures; readonly placed: (face: Face) => Face }> {
  const cover = await finder.coverOf(cropsOf(before), face);
  const own = { cover: await finder.coverOf(cropsOf(source.picture), source.face) };
  const prepared = prepareSource(source.picture, source.face, face.width, own);
  const { moved, placed, drawn, shape } = movedAlone({ picture: before, face }, prepared, cover);
  const [anew, found] = [await finder.refit(before, face), await finder.refit(after, face)];
  const measures = measure(
    { before, after, moved, drawn },
    { before: face, after: found, placed, anew },
    {
      landmarks: [await landmarks(before, anew), await landmarks(after, found)],
      encoded: textureLeft({ before, after, moved }, face),
    },
  );
  return { measures, placed: (one) => placedLike(one, prepared, shape) };
}

/** Distance from the middle of a face up to which a frame is as sharp as at the face, in face widths. */
const AROUND = 0.9;
/** Distance from all that moves, in face widths. */
const APART = 0.04;

/** Returns the share of fine texture that encoding leaves around a face, where nothing was drawn. */
export function textureLeft(
  { before, after, moved }: { readonly before: Picture; readonly after: Picture; readonly moved: Picture },
  { points, width: faceWidth }: Face,
): number {
  const { width, height } = before;
  const changed = plane(width, height);
  for (let i = 0; i < changed.data.length; i++)
    for (let c = 0; c < 3; c++) if (before.data[i * 3 + c] !== moved.data[i * 3 + c]) changed.data[i] = 1;
  const around = grow(changed, APART * faceWidth);
  const [x, y] = [points[12] as number, points[13] as number];
  for (let i = 0; i < around.data.length; i++) {
    const near = Math.hypot((i % width) - x, Math.floor(i / width) - y) < AROUND * faceWidth;
    around.data[i] = near && around.data[i] === 0 ? 1 : 0;
  }
  return edges(after, around) / edges(before, around);
}

/** A step of a region's colour between two frames. */
interface Step {
  readonly step: number;
  /** The later frame. */
  readonly at: number;
  /** Name of the region. */
  readonly region: string;
}

/**
 * Returns how much more a region's mean Lab colour steps from frame to frame in the result than in the clip: of the
 * regions the largest, of the frames the 95th percentile.
 * @param placed where the result shows the new features: new lids lie where old eyes were, and a pixel beside them is
 * another colour
 */
export function flickerOf(
  before: readonly Picture[],
  after: readonly Picture[],
  faces: readonly Face[],
  placed: readonly Face[] = faces,
): Step {
  const own = stepsOf(before, faces);
  const steps = stepsOf(after, placed).map((fresh, i): Step => {
    const regions = fresh.map((step, r) => ({
      step: Math.max(0, step - (own[i]?.[r] as number)),
      at: i + 1,
      region: REGION_NAMES[r] as string,
    }));
    return regions.reduce((most, one) => (one.step > most.step ? one : most));
  });
  steps.sort((a, b) => a.step - b.step);
  const step = steps[Math.floor(0.95 * (steps.length - 1))];
  if (!step) throw new RangeError('flicker needs two frames');
  return step;
}

/** Returns the steps of all regions' colours between frames. */
function stepsOf(frames: readonly Picture[], faces: readonly Face[]): number[][] {
  const colours = faces.map((face, i) => regionColours(frames[i] as Picture, face));
  return colours
    .slice(1)
    .map((all, i) =>
      all.map((colour, r) => Math.hypot(...colour.map((v, c) => v - (colours[i]?.[r]?.[c] as number)))),
    );
}

/**
 * Returns the mesh in each frame, without jitter that would count as flicker. Under a moving camera it is the mesh of
 * the first frame, moved as the camera; else each is a mean over up to five frames.
 */
export async function meshes(
  frames: readonly Picture[],
  scenes: readonly Scene[],
  { finder }: Judges,
): Promise<Face[]> {
  const faces: Face[] = [];
  for (const frame of frames) {
    const last = faces.at(-1);
    const [found] = last ? [await finder.refit(frame, last)] : await finder.find(frame, () => undefined);
    if (!found) break;
    faces.push(found);
  }
  const [first, scene] = [faces[0], scenes[0]];
  if (first && scene && scenes.length === 1)
    return faces.map((_, frame) =>
      placed(first, cropOf(scene.view(0), SIZE), cropOf(scene.view(frame), SIZE)),
    );
  return faces.map((face, i) => {
    // As many frames before as after, so that motion does not pull the mesh to one side.
    const reach = Math.min(REACH, i, faces.length - 1 - i);
    const points = new Float32Array(face.points.length);
    for (const near of faces.slice(i - reach, i + reach + 1))
      for (let p = 0; p < points.length; p++)
        points[p] = (points[p] as number) + (near.points[p] as number) / (2 * reach + 1);
    return faceFromPoints(points, face.score);
  });
}

/** Moves a mesh from one view of a picture to another. */
function placed({ points, score }: Face, from: CropTransform, to: CropTransform): Face {
  const moved = points.slice();
  for (let p = 0; p < points.length; p += 3) {
    const still = toPicture(from, points[p] as number, points[p + 1] as number);
    const { x, y } = toCrop(to, still.x, still.y);
    moved.set([x, y, ((points[p + 2] as number) * from.scale) / to.scale], p);
  }
  return faceFromPoints(moved, score);
}

export async function framesOf(media: Media, path: string): Promise<Picture[]> {
  const signal = new AbortController().signal;
  const info = await media.probe(path, 'video', signal);
  const frames: Picture[] = [];
  for await (const frame of media.decodeVideo(path, info, { signal }))
    frames.push(regionToRgb(frame, { x: 0, y: 0, width: frame.width, height: frame.height }, COLOR));
  return frames;
}
