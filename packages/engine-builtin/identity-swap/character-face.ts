import type { Picture } from '@semblance/engine-api/picture';
import type { FaceFinder } from '@semblance/vision/face-finder';
import type { Person } from '@semblance/vision/person';
import { type CropTransform, cropRgb } from '@semblance/vision/picture';
import { preparePortrait } from '../animate/prepare.ts';
import { lookAtMouth } from '../motion-transfer/mouth-scale.ts';
import { nearestFace } from './face-follow.ts';
import { headRadius, skeletonOf } from './skeleton.ts';

/** The search area around the head, in head radii, and its side in pixels. */
const REACH = 3.4;
const SIDE = 448;
/** Largest distance between the middle of a face and the middle of the head, in head radii. */
const NEAR = 1.3;

/** The face in a character's picture. */
export interface CharacterFace {
  /** x, y, z of each mesh point, in pixels of the picture. */
  readonly points: Float32Array;
  /** Measured opening of the mouth for each opening that is tried. */
  readonly mouth: readonly number[];
}

/**
 * Finds the face of the person in a picture. Returns undefined when there is none; the head is then drawn
 * unchanged.
 */
export async function readCharacterFace(
  picture: Picture,
  person: Person,
  finder: FaceFinder,
  checkpoint: () => void,
): Promise<CharacterFace | undefined> {
  const skeleton = skeletonOf(person.points);
  if (skeleton.facing < 0) return undefined;
  const radius = headRadius(skeleton);
  const scale = Math.max(0.5, (2 * REACH * radius) / SIDE);
  const side = 2 * Math.max(32, Math.round((REACH * radius) / scale));
  const { head } = skeleton;
  const crop: CropTransform = {
    scale,
    angle: 0,
    originX: head.x - (scale * side) / 2,
    originY: head.y - (scale * side) / 2,
  };
  const part: Picture = {
    width: side,
    height: side,
    channels: 3,
    data: new Uint8Array(Uint8ClampedArray.from(cropRgb(picture, crop, side, side).data).buffer),
  };
  checkpoint();
  const middle = { x: side / 2, y: side / 2 };
  const face = await nearestFace(finder, part, { box: { left: 0, top: 0 }, step: 1, at: middle, checkpoint });
  if (!face) return undefined;
  const points = face.points.map(
    (value, i) => value * scale + (i % 3 === 0 ? crop.originX : i % 3 === 1 ? crop.originY : 0),
  );
  const away = Math.hypot((points[18] as number) - head.x, (points[19] as number) - head.y);
  if (away > NEAR * radius) return undefined;
  checkpoint();
  const portrait = preparePortrait(part, face);
  return { points, mouth: await lookAtMouth(portrait, face, finder, checkpoint) };
}
