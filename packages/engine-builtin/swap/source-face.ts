import type { Picture } from '@semblance/engine-api/picture';
import type { Rect } from '@semblance/media/yuv';
import { CROP, shareCovered, shareFramed, showsFrame } from '@semblance/vision/face-cover';
import { cropsOf, type Face, POINTS } from '@semblance/vision/face-mesh';
import { type Gaze, gazeOf } from '@semblance/vision/gaze';
import { cropRgb, type Point, type RgbImage, squareCrop, toCrop } from '@semblance/vision/picture';
import { blur, grow, type Plane, plane, sample } from '@semblance/vision/plane/plane';
import { withScratch } from '@semblance/vision/plane/scratch';
import { type BuiltinSettings, LIKENESS } from '../settings.ts';
import { BEARD_SHAVEN, beardOf } from './beard.ts';
import { browsFree } from './brows.ts';
import { findCover, SOURCE_COVER } from './cover.ts';
import { faceZones } from './face-zones.ts';
import { findFringe } from './fringe.ts';
import { coloursOf, withLipEdge } from './lip-edge.ts';
import { calmRedEyes } from './red-eyes.ts';
import { beardArea } from './shaven.ts';
import { cropSmooth } from './smooth-crop.ts';
import { besideEyes } from './target-cover.ts';
import { makeWhole } from './whole-face.ts';

/** Size of the patch relative to the face width; the network that finds what is in front sees the same square. */
const EXTENT = CROP;
/** Face width in the smallest patch, in pixels. */
const NARROWEST = 24;
/** Face width at which a face is analysed, in pixels. More pixels say nothing more about hair and light. */
const ANALYSIS_WIDTH = 120;

/** The source face, cut out upright, with what is known about its visible skin. */
export interface SourceFace {
  readonly image: RgbImage;
  /** Mesh in pixels of `image`, stride 3. */
  readonly points: Float32Array;
  readonly faceWidth: number;
  /** The same in the source's picture, if that is less: finer detail is not there. */
  readonly resolved: number;
  /** The same patch on the coarser grid of `visible`. */
  readonly coarse: RgbImage;
  /** On a coarser grid: 1 where the patch shows the face itself, 0 where hair, a hand or a frame covers it. */
  readonly visible: Plane;
  /** 1 on skin of the source that surely nothing covers, on the same grid. */
  readonly clean: Plane;
  /** Pixels of `visible` per pixel of `image`. */
  readonly visibleScale: number;
  readonly glasses: boolean;
  /** Whether no fringe hangs over its brows; behind glasses this is not known. */
  readonly browsFree: boolean;
  readonly gaze: Gaze;
  /** How surely it wears a beard, 0–1. */
  readonly beard: number;
  readonly grey: boolean;
  /** Share of the face that hair, glasses or a hand covers, and share in coloured light; both were mended. */
  readonly covered: number;
  readonly colouredLight: number;
  /** Share of each pixel of `visible` that the network finds covered; undefined: it was not asked. */
  readonly front: Plane | undefined;
  /** Strength of its detail on the target's skin, 0–1. */
  readonly likeness: number;
}

/** What {@link prepareSource} is told about a source. */
export interface SourceOptions extends Partial<BuiltinSettings> {
  /** What the network finds in front of the face; undefined: it was not asked. */
  readonly cover?: Plane | undefined;
}

/**
 * Cuts a face out of its picture.
 * @param targetWidth width in pixels of the face that it replaces; a finer patch would be of no use
 */
export function prepareSource(
  picture: Picture,
  face: Face,
  targetWidth: number,
  { likeness = LIKENESS, cover }: SourceOptions = {},
): SourceFace {
  return withScratch(() => {
    const source = analyse(picture, face, targetWidth, cover);
    return {
      ...source,
      visible: ownCopy(source.visible),
      clean: ownCopy(source.clean),
      front: source.front && ownCopy(source.front),
      likeness,
    };
  });
}

function ownCopy(source: Plane): Plane {
  return { ...source, data: source.data.slice() };
}

function analyse(
  picture: Picture,
  face: Face,
  targetWidth: number,
  inFront: Plane | undefined,
): Omit<SourceFace, 'likeness'> {
  // What is laid over an enlarged source needs a patch that shows it.
  const faceWidth = Math.max(NARROWEST, Math.min(Math.max(face.width, ANALYSIS_WIDTH), 1.25 * targetWidth));
  const { image, points } = cutOut(picture, face, faceWidth, cropSmooth);
  const analysisWidth = Math.min(faceWidth, ANALYSIS_WIDTH);
  const coarse = analysisWidth === faceWidth ? { image, points } : cutOut(picture, face, analysisWidth);
  const flat = flatten(coarse.points);
  const zones = faceZones(flat, coarse.image, analysisWidth);
  const cover = findCover(coarse.image, zones, analysisWidth, SOURCE_COVER);
  const eyes = blur(grow(zones.eyes, 0.02 * analysisWidth), 0.015 * analysisWidth);
  // The edges of a rim and its shadow would remain as thin lines.
  const open = blur(grow(zones.eyeOpenings, 0.015 * analysisWidth), 0.01 * analysisWidth);
  const frame = blur(grow(cover.frame, 0.02 * analysisWidth), 0.01 * analysisWidth);
  const fringe = findFringe(cover.skinlike, zones, analysisWidth);
  const visible = plane(coarse.image.width, coarse.image.height);
  const framed = inFront !== undefined && showsFrame(inFront, face);
  const found = inFront && frontOfPatch(inFront, visible, framed ? zones.glasses : undefined);
  const front = found && framed ? besideEyes(found, zones, analysisWidth) : found;
  for (let i = 0; i < visible.data.length; i++) {
    // One eye of the source and one of the target would look in different directions, so hair over an eye counts as
    // part of the source.
    const hair = Math.max(cover.front.data[i] as number, fringe.data[i] as number);
    visible.data[i] =
      1 -
      Math.max(
        hair * (1 - (eyes.data[i] as number)),
        (frame.data[i] as number) * (1 - (open.data[i] as number)),
        front?.data[i] ?? 0,
      );
  }
  const visibleScale = analysisWidth / faceWidth;
  const grey = isGrey(coarse.image);
  const cut = { image, coarse: coarse.image, points: coarse.points, zones, visible, scale: visibleScale };
  const beard = beardOf(coarse.image, flat, analysisWidth, front) > BEARD_SHAVEN ? 1 : 0;
  const covered = shareHidden(visible, zones.face);
  if (beard > 0) {
    // What is painted over with skin leaves no half moustache on a bare lip.
    const hair = beardArea(coarse.image, flat, analysisWidth);
    for (let i = 0; i < visible.data.length; i++)
      visible.data[i] = (visible.data[i] as number) * (1 - (hair.data[i] as number));
  }
  const whole = makeWhole(cut, analysisWidth);
  const glasses = cover.hasGlasses || framed;
  return {
    image,
    coarse: coarse.image,
    points,
    faceWidth,
    resolved: Math.min(face.width, faceWidth),
    visible: whole.visible,
    clean: cover.clean,
    visibleScale,
    glasses,
    browsFree: glasses || browsFree(visible, flat, analysisWidth),
    gaze: gazeOf(cropsOf(picture), face.points),
    beard,
    grey,
    covered,
    colouredLight: whole.colouredLight,
    front,
  };
}

/**
 * Returns the share of each pixel of a patch that the network finds covered; its crop is the same square.
 * @param glasses 1 where the glasses that it wears sit; undefined: none
 */
function frontOfPatch(cover: Plane, { width, height }: Plane, glasses: Plane | undefined): Plane {
  const out = plane(width, height);
  for (let i = 0; i < out.data.length; i++) {
    const x = (((i % width) + 0.5) * cover.width) / width;
    const y = ((Math.floor(i / width) + 0.5) * cover.height) / height;
    out.data[i] = (glasses?.data[i] ? shareFramed : shareCovered)(sample(cover, x, y));
  }
  return out;
}

/** Returns the share of a face that is not visible. */
function shareHidden(visible: Plane, face: Plane): number {
  let [hidden, all] = [0, 0];
  for (let i = 0; i < face.data.length; i++) {
    hidden += (face.data[i] as number) * (1 - (visible.data[i] as number));
    all += face.data[i] as number;
  }
  return hidden / Math.max(1, all);
}

/** @param cropped cuts the square out; a patch that is only analysed need not be smooth */
function cutOut(
  picture: Picture,
  face: Face,
  faceWidth: number,
  cropped: typeof cropSmooth = (from, crop, size) => cropRgb(from, crop, size, size),
): { image: RgbImage; points: Float32Array } {
  const size = Math.round(EXTENT * faceWidth);
  const side = (size * face.width) / faceWidth;
  const crop = squareCrop(middleOf(face), side, face.roll, size);
  const points = new Float32Array(POINTS * 3);
  for (let i = 0; i < POINTS; i++) {
    const p = toCrop(crop, face.points[i * 3] as number, face.points[i * 3 + 1] as number);
    points[i * 3] = p.x;
    points[i * 3 + 1] = p.y;
    points[i * 3 + 2] = (face.points[i * 3 + 2] as number) / crop.scale;
  }
  const image = cropped(picture, crop, size);
  calmRedEyes({ ...image, channels: 3 }, points);
  return { image, points: withLipEdge(points, faceWidth, coloursOf(image)) };
}

/**
 * Returns the part of a picture that {@link prepareSource} reads for any target width, in whole pixels. A picture
 * cropped to it gives the same patch.
 */
export function partRead(picture: Picture, face: Face): Rect {
  const { x, y } = middleOf(face);
  const turned = Math.abs(Math.cos(face.roll)) + Math.abs(Math.sin(face.roll));
  // A patch is a whole number of its own pixels wide and is interpolated between the picture's pixels.
  const half = 0.5 * turned * (EXTENT + 0.5 / NARROWEST) * face.width + 2;
  const within = (value: number, length: number): number => Math.min(length, Math.max(0, value));
  const left = within(Math.floor(x - half), picture.width - 1);
  const top = within(Math.floor(y - half), picture.height - 1);
  const width = within(Math.ceil(x + half), picture.width) - left;
  const height = within(Math.ceil(y + half), picture.height) - top;
  return { x: left, y: top, width: Math.max(1, width), height: Math.max(1, height) };
}

function middleOf({ points }: Face): Point {
  let [x, y] = [0, 0];
  for (let i = 0; i < POINTS; i++) {
    x += points[i * 3] as number;
    y += points[i * 3 + 1] as number;
  }
  return { x: x / POINTS, y: y / POINTS };
}

/** Returns x and y of points that also have z. */
export function flatten(points: Float32Array): Float32Array {
  const out = new Float32Array((points.length / 3) * 2);
  for (let i = 0; i < out.length / 2; i++) {
    out[i * 2] = points[i * 3] as number;
    out[i * 2 + 1] = points[i * 3 + 1] as number;
  }
  return out;
}

/** Returns whether an image has practically no colour (grey, or grey stored as RGB). */
function isGrey(image: RgbImage): boolean {
  let sum = 0;
  for (let p = 0; p < image.data.length; p += 3) {
    const r = image.data[p] as number;
    const g = image.data[p + 1] as number;
    const b = image.data[p + 2] as number;
    sum += Math.max(r, g, b) - Math.min(r, g, b);
  }
  return sum / (image.data.length / 3) < 4;
}
