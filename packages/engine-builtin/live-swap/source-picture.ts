import { RenderError } from '@semblance/engine-api/engine';
import type { Picture } from '@semblance/engine-api/picture';
import { type FaceFinder, isShown } from '@semblance/vision/face-finder';
import { cropsOf, type Face } from '@semblance/vision/face-mesh';
import { readFace } from '@semblance/vision/image/picture-file';
import { cropRgb, shrink } from '@semblance/vision/picture';
import type { BuiltinSettings } from '../settings.ts';
import { partRead, type SourceOptions } from '../swap/source-face.ts';
import { placed } from '../video-swap/frame-part.ts';
import type { SwapSource } from '../video-swap/swap-protocol.ts';

/**
 * Most pixels in which a face is searched. Without a face, the search runs the detector on all of them in four
 * directions while a caller waits. A portrait's face is wide enough in them by far.
 */
const SEARCHED_PIXELS = 1_000_000;
/** Widest face that is kept, in pixels: the patch for a face that fills the largest pictures of a stream. */
const WIDEST = 698;

/**
 * Reads the face that a stream puts on: the most prominent one of a picture, with only the part of the picture that
 * swaps read.
 * @throws RenderError `face_not_detected`, `unsupported_format`, `input_too_large`
 */
export async function readSource(
  path: string,
  finder: FaceFinder,
  settings?: BuiltinSettings,
): Promise<SwapSource> {
  const picture = await readFace(path);
  const face = await findMain(picture, finder);
  if (!face) throw new RenderError('face_not_detected', 'No face was found in the picture of the face.');
  return cutSource(picture, face, { ...settings, cover: await finder.coverOf(cropsOf(picture), face) });
}

/** Returns the most prominent face of a picture. */
export async function findMain(picture: Picture, finder: FaceFinder): Promise<Face | undefined> {
  const { width, height } = picture;
  const times = Math.sqrt((width * height) / SEARCHED_PIXELS);
  if (times <= 1) return (await finder.find(picture, () => undefined))[0];
  const size = (length: number): number => Math.max(1, Math.round(length / times));
  const copy = shrink(picture, size(width), size(height));
  const [found] = await finder.find(copy, () => undefined);
  if (!found) return undefined;
  const face = placed(found, 0, 0, times);
  const refitted = await finder.refit(picture, face);
  // A barely visible face may score too low in other pixels, so it is used as it was found.
  return isShown(refitted) ? refitted : face;
}

/** Crops the part of the picture that swaps read. A face wider than any stream shows is scaled down. */
export function cutSource(picture: Picture, face: Face, options: SourceOptions = {}): SwapSource {
  const part = partRead(picture, face);
  const scale = Math.max(1, face.width / WIDEST);
  const [width, height] = [Math.ceil(part.width / scale), Math.ceil(part.height / scale)];
  const crop = { scale, angle: 0, originX: part.x, originY: part.y };
  const pixels = cropRgb(picture, crop, width, height).data;
  // Shared, so that the background thread needs no copy.
  const data = new Uint8Array(new SharedArrayBuffer(pixels.length));
  for (let i = 0; i < pixels.length; i++) data[i] = Math.round(pixels[i] as number);
  const { points, score } = placed(face, -part.x / scale, -part.y / scale, 1 / scale);
  return { picture: { width, height, channels: 3, data }, points, score, options };
}
