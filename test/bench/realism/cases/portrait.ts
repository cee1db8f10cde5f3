import { readdir } from 'node:fs/promises';
import { basename, join } from 'node:path';
import type { Picture } from '@semblance/engine-api/picture';
import { findCover, TARGET_COVER } from '@semblance/engine-builtin/internal/swap/cover';
import { faceZones } from '@semblance/engine-builtin/internal/swap/face-zones';
import { apertures } from '@semblance/testkit/quality/measures';
import { type FaceFinder, yaw } from '@semblance/vision/face-finder';
import { type Face, POINTS } from '@semblance/vision/face-mesh';
import { LIPS_INNER } from '@semblance/vision/face-regions';
import { cropRgb, squareCrop, toCrop } from '@semblance/vision/picture';
import { fillPolygon, plane } from '@semblance/vision/plane/plane';
import { readRgb } from '../../photo-swap/portraits.ts';
import { lab, linear } from './colour.ts';
import { HeadFrame } from './head-frame.ts';
import { measureLight } from './light.ts';

/** What is measured of a portrait to spread pairs over. */
export interface Traits {
  /** L* of the skin, 0–100. */
  readonly lightness: number;
  /** Width of the face in pixels. */
  readonly width: number;
  /** Opening of the mouth as a share of the distance of the eyes. */
  readonly opening: number;
  /** Share of the mouth's opening that is as light and colourless as teeth. */
  readonly teeth: number;
  /** Turn of the head, radians. */
  readonly yaw: number;
  readonly glasses: boolean;
}

export interface Portrait {
  /** Name of the file without its ending. */
  readonly label: string;
  readonly picture: Picture;
  readonly face: Face;
  readonly traits: Traits;
}

/** Whether nothing was trained on a portrait, so that it may stand for unknown ones: each third. */
export function heldOut({ label }: Pick<Portrait, 'label'>): boolean {
  return Number(label.slice(1)) % 3 === 0;
}

/** Side of the crop in which covers are looked for, in face widths and in pixels. */
const CROP = 1.6;
const CROP_SIZE = 192;

/** Reads the pictures of a folder (`p000.jpg` and so on) that show a face, in the order of their names. */
export async function readPortraits(folder: string, finder: FaceFinder): Promise<Portrait[]> {
  const files = (await readdir(folder)).filter((name) => /^p\d+\.jpg$/.test(name)).sort();
  const portraits: Portrait[] = [];
  for (const file of files) {
    const picture = await readRgb(join(folder, file));
    const [face] = await finder.find(picture, () => undefined);
    if (face)
      portraits.push({ label: basename(file, '.jpg'), picture, face, traits: traitsOf(picture, face) });
  }
  return portraits;
}

function traitsOf(picture: Picture, face: Face): Traits {
  const { skin } = measureLight(picture, face, new HeadFrame(face));
  return {
    lightness: lab(skin)[0],
    width: face.width,
    opening: apertures(face).mouth,
    teeth: teethShare(picture, face, skin),
    yaw: yaw(face),
    glasses: hasGlasses(picture, face),
  };
}

/** Returns the share of the opening between the lips whose colour is that of teeth beside this skin. */
function teethShare(picture: Picture, face: Face, skin: ArrayLike<number>): number {
  const mouth = plane(picture.width, picture.height);
  fillPolygon(
    mouth,
    LIPS_INNER.flatMap((i) => [face.points[i * 3] as number, face.points[i * 3 + 1] as number]),
  );
  const [lightest, reddest] = lab(skin);
  let count = 0;
  let teeth = 0;
  for (let i = 0; i < mouth.data.length; i++) {
    if (!mouth.data[i]) continue;
    count++;
    const [l, a] = lab([0, 1, 2].map((c) => linear(picture.data[i * 3 + c] as number)));
    if (l > 0.75 * lightest && a < 0.8 * reddest + 2) teeth++;
  }
  // A line of a few pixels between closed lips says nothing.
  return count > 0.0008 * face.width ** 2 ? teeth / count : 0;
}

function hasGlasses(picture: Picture, face: Face): boolean {
  let [x, y] = [0, 0];
  for (let i = 0; i < POINTS; i++) {
    x += (face.points[i * 3] as number) / POINTS;
    y += (face.points[i * 3 + 1] as number) / POINTS;
  }
  const crop = squareCrop({ x, y }, CROP * face.width, face.roll, CROP_SIZE);
  const points = new Float32Array(POINTS * 2);
  for (let i = 0; i < POINTS; i++) {
    const at = toCrop(crop, face.points[i * 3] as number, face.points[i * 3 + 1] as number);
    points[i * 2] = at.x;
    points[i * 2 + 1] = at.y;
  }
  const image = cropRgb(picture, crop, CROP_SIZE, CROP_SIZE);
  const faceWidth = CROP_SIZE / CROP;
  return findCover(image, faceZones(points, image, faceWidth), faceWidth, TARGET_COVER).hasGlasses;
}
