import { PREVIEW_SIDE, type PreviewMoment, RenderError } from '@semblance/engine-api/engine';
import type { Findings } from '@semblance/engine-api/findings';
import type { Picture } from '@semblance/engine-api/picture';
import type { InspectWork } from '@semblance/engine-api/render-work';
import { outputSize } from '@semblance/media/size';
import { regionToRgb } from '@semblance/media/yuv';
import { cropsOf } from '@semblance/vision/face-mesh';
import { type BasePicture, encodeBase, readBase } from '@semblance/vision/image/picture-file';
import { shrink } from '@semblance/vision/picture';
import { markJpeg } from '../live-swap/picture-mark.ts';
import { facesOf } from '../people/find-people.ts';
import { type MappingWork, mappingOf, rolesOf } from '../people/mapping.ts';
import type { RenderTools } from '../renderer.ts';
import { MappedPeople } from '../video-swap/mapped-people.ts';
import { swapped } from './photo-swap.ts';
import type { BaseName } from './steps.ts';
import type { Target } from './swap-mapped.ts';

/** Videos of this length, in microseconds, or shorter are decoded up to the moment; of others, key frames alone are. */
const SHORT_US = 20_000_000;
/** Least time between two frames that are decoded, in microseconds. */
const APART_US = 100_000;

/**
 * Longest side, in pixels, of what people of a mapping are searched in and swapped in, before it is made smaller: in
 * {@link PREVIEW_SIDE} those in the background would be too small to be told apart.
 */
const PEOPLE_SIDE = 1280;
/** Smallest width of a face in a video, as a share of the shorter side, as a job searches. */
const SMALLEST_IN_VIDEO = 0.08;

const FRAME: BaseName = { role: 'video', name: 'frame of the video', field: 'at_sec' };

type Tools = Pick<RenderTools, 'finder' | 'recogniser' | 'settings' | 'media' | 'signal' | 'checkpoint'>;

/**
 * Swaps one frame of Photo Swap or Video Swap at a small size, and answers it as a JPEG that is marked like outputs.
 * @throws RenderError as the render
 */
export async function previewSwap(
  work: InspectWork,
  { atUs }: PreviewMoment,
  tools: Tools,
): Promise<Findings> {
  const ofVideo = work.capability === 'face-swap';
  const { face, [ofVideo ? 'video' : 'image']: path } = work.inputs;
  if (!path || !face) throw new RenderError('processing_failed', 'A preview needs the inputs of its swap.');
  const mapping = mappingOf(work);
  const side = mapping ? PEOPLE_SIDE : PREVIEW_SIDE;
  const image = ofVideo ? await frameOf(path, atUs, side, tools) : await smallBase(path, side);
  const swap = {
    ...{ image, face },
    ...(mapping && { mapping }),
    ...(ofVideo && { name: FRAME }),
    ...(ofVideo && mapping && { targetsOf: (base: Picture) => knownIn(base, mapping, tools) }),
  };
  const { base: done, findings } = await swapped(swap, tools, {
    lap: tools.checkpoint,
    progress: () => undefined,
    checkpoint: tools.checkpoint,
    draw: true,
  });
  const shown = { ...done, picture: fitted(done.picture, PREVIEW_SIDE) };
  const jpeg = markJpeg(await encodeBase({ ...shown, format: 'jpeg', lossless: false }));
  return { ...findings, preview: Buffer.from(jpeg).toString('base64') };
}

/** Recognises the people of a mapping in a frame of a video, as a job does when a shot begins. */
async function knownIn(
  picture: Picture,
  mapping: MappingWork,
  { finder, recogniser, checkpoint }: Tools,
): Promise<Target[]> {
  if (!recogniser) throw new Error('people are recognised by a recogniser');
  const roles = rolesOf(mapping);
  const people = new MappedPeople(mapping, (role) => roles.indexOf(role));
  const newcomers = [];
  for (const face of await facesOf(finder, picture, checkpoint, SMALLEST_IN_VIDEO)) {
    checkpoint();
    newcomers.push({ face, look: await (await recogniser()).describe(cropsOf(picture), face) });
  }
  const chosen = people.choose(newcomers, 0, { people: [], widest: 0 });
  return newcomers.map(({ face }) => {
    const person = chosen.find((one) => one.face === face)?.person;
    return { face, id: person?.id, role: person?.source === undefined ? undefined : roles[person.source] };
  });
}

async function smallBase(path: string, longest: number): Promise<BasePicture> {
  const base = await readBase(path);
  return { ...base, picture: fitted(base.picture, longest) };
}

/** Returns a picture with sides of at most so many pixels. */
function fitted(picture: Picture, longest: number): Picture {
  const by = longest / Math.max(picture.width, picture.height);
  if (by >= 1) return picture;
  const side = (length: number) => Math.max(1, Math.round(length * by));
  return shrink(picture, side(picture.width), side(picture.height));
}

/** Returns the frame of a video that is shown at a time, or of a long video the key frame before it. */
async function frameOf(
  path: string,
  atUs: number,
  longest: number,
  { media: open, signal, checkpoint }: Tools,
): Promise<BasePicture> {
  const media = await open();
  const info = await media.probe(path, 'video', signal);
  const { video } = info;
  const { width, height } = video;
  const size = outputSize(video, Math.round((longest * Math.min(width, height)) / Math.max(width, height)));
  const sample = { apartUs: APART_US, keyFrames: video.endUs > SHORT_US };
  let shown: Picture | undefined;
  for await (const frame of media.decodeVideo(path, info, { signal, size, sample })) {
    checkpoint();
    if (shown && frame.ptsUs > atUs) break;
    shown = regionToRgb(frame, { x: 0, y: 0, width: frame.width, height: frame.height }, video.color);
  }
  if (!shown) throw new RenderError('unsupported_format', 'The video (video_key) has no frames.');
  return { picture: fitted(shown, longest), format: 'jpeg', lossless: false, profile: undefined };
}
