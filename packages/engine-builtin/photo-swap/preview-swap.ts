import { PREVIEW_SIDE, type PreviewMoment, RenderError } from '@semblance/engine-api/engine';
import type { Findings } from '@semblance/engine-api/findings';
import type { Picture } from '@semblance/engine-api/picture';
import type { InspectWork } from '@semblance/engine-api/render-work';
import { outputSize } from '@semblance/media/size';
import { regionToRgb } from '@semblance/media/yuv';
import { type BasePicture, encodeBase, readBase } from '@semblance/vision/image/picture-file';
import { shrink } from '@semblance/vision/picture';
import { markJpeg } from '../live-swap/picture-mark.ts';
import { mappingOf } from '../people/mapping.ts';
import type { RenderTools } from '../renderer.ts';
import { swapped } from './photo-swap.ts';

/** Videos of this length, in microseconds, or shorter are decoded up to the moment; of others, key frames alone are. */
const SHORT_US = 20_000_000;
/** Least time between two frames that are decoded, in microseconds. */
const APART_US = 100_000;

type Tools = Pick<RenderTools, 'finder' | 'settings' | 'media' | 'signal' | 'checkpoint'>;

/**
 * Swaps one frame of Photo Swap or Video Swap at a small size, and answers it as a JPEG that is marked like outputs.
 * @throws RenderError as the render
 */
export async function previewSwap(
  work: InspectWork,
  { atUs }: PreviewMoment,
  tools: Tools,
): Promise<Findings> {
  const { image, video, face } = work.inputs;
  const path = work.capability === 'face-swap' ? video : image;
  if (!path || !face) throw new RenderError('processing_failed', 'A preview needs the inputs of its swap.');
  const base = work.capability === 'face-swap' ? await frameOf(path, atUs, tools) : await smallBase(path);
  const mapping = mappingOf(work);
  const { base: done, findings } = await swapped({ image: base, face, ...(mapping && { mapping }) }, tools, {
    lap: tools.checkpoint,
    progress: () => undefined,
    checkpoint: tools.checkpoint,
    draw: true,
  });
  const jpeg = markJpeg(await encodeBase({ ...done, format: 'jpeg', lossless: false }));
  return { ...findings, preview: Buffer.from(jpeg).toString('base64') };
}

async function smallBase(path: string): Promise<BasePicture> {
  const base = await readBase(path);
  return { ...base, picture: fitted(base.picture) };
}

/** Returns a picture whose sides are at most {@link PREVIEW_SIDE}. */
function fitted(picture: Picture): Picture {
  const by = PREVIEW_SIDE / Math.max(picture.width, picture.height);
  if (by >= 1) return picture;
  const side = (length: number) => Math.max(1, Math.round(length * by));
  return shrink(picture, side(picture.width), side(picture.height));
}

/** Returns the frame of a video that is shown at a time, or of a long video the key frame before it. */
async function frameOf(
  path: string,
  atUs: number,
  { media: open, signal, checkpoint }: Tools,
): Promise<BasePicture> {
  const media = await open();
  const info = await media.probe(path, 'video', signal);
  const { video } = info;
  const { width, height } = video;
  const size = outputSize(
    video,
    Math.round((PREVIEW_SIDE * Math.min(width, height)) / Math.max(width, height)),
  );
  const sample = { apartUs: APART_US, keyFrames: video.endUs > SHORT_US };
  let shown: Picture | undefined;
  for await (const frame of media.decodeVideo(path, info, { signal, size, sample })) {
    checkpoint();
    if (shown && frame.ptsUs > atUs) break;
    shown = regionToRgb(frame, { x: 0, y: 0, width: frame.width, height: frame.height }, video.color);
  }
  if (!shown) throw new RenderError('unsupported_format', 'The video (video_key) has no frames.');
  return { picture: fitted(shown), format: 'jpeg', lossless: false, profile: undefined };
}
