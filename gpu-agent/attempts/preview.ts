import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describeError } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';
import { MAX_PREVIEW_BYTES, PREVIEW_TYPE } from '@semblance/common/output-preview';
import type { OpenMedia } from '@semblance/media/media';
import { regionToRgb } from '@semblance/media/yuv';
import type { MarkOptions, Provenance } from '@semblance/provenance/provenance';
import { MAX_PIXELS, readSmall } from '@semblance/vision/image/picture-file';
import sharp from 'sharp';
import { type StoreOptions, storeOutput } from '../assets/store-output.ts';
import { checkedOutput } from '../assets/work-dir.ts';

/** Most pixels of a preview's longer side. */
const SIDE = 320;
const QUALITY = 80;
/** Moment of a video that is shown: its very beginning is often black. */
const SHOWN_US = 1_000_000;
/** Longest time to make a preview, and to store it, in ms. The result does not wait longer for it. */
const LIMIT_MS = 20_000;

/** Reads videos; undefined on a machine without media tools. */
export type VideoReader = Pick<OpenMedia, 'probe' | 'decodeVideo'>;

interface Pixels {
  readonly data: Uint8Array;
  readonly width: number;
  readonly height: number;
  readonly channels: number;
}

export interface PreviewSource {
  /** Finished output. */
  readonly path: string;
  readonly contentType: string;
  /** Existing folder for the files of the preview. */
  readonly dir: string;
  readonly media: VideoReader | undefined;
  readonly signal: AbortSignal;
  readonly logger: Logger;
}

export interface PreviewStore {
  readonly provenance: Pick<Provenance, 'mark'>;
  /** What its mark says, as that of the output. */
  readonly mark: Omit<MarkOptions, 'path' | 'contentType' | 'signal'>;
  readonly store: Omit<StoreOptions, 'path' | 'sizeBytes' | 'signal'>;
}

/** The small picture of an output. Nothing of it rejects: a result without a preview is a result. */
export interface Preview {
  /** Settles when the output is not read any more. */
  readonly read: Promise<void>;
  /** Marks it like the output, and stores it. */
  store(options: PreviewStore): Promise<void>;
  /** Ends what goes on; when it settles, nothing of it runs. */
  end(): Promise<void>;
}

/**
 * Begins to make a small picture of an output, while the output is measured and checked: it takes about as long, and
 * is not stored before the output may be.
 */
export function beginPreview({ path, contentType, dir, media, logger, ...source }: PreviewSource): Preview {
  const ended = new AbortController();
  const wanted = AbortSignal.any([source.signal, ended.signal]);
  // The output may be measured for long in between.
  const inTime = () => AbortSignal.any([wanted, AbortSignal.timeout(LIMIT_MS)]);
  const fail = (error: unknown) => {
    if (!wanted.aborted) logger.warn({ err: error }, `no preview of the output: ${describeError(error)}`);
  };
  const made = previewOf(path, contentType, media, inTime());
  const read = made.then(() => undefined, fail);
  let stored = Promise.resolve();

  async function storeIt({ provenance, mark, store }: PreviewStore): Promise<void> {
    const jpeg = await made.catch(() => undefined);
    if (!jpeg) return;
    const signal = inTime();
    try {
      const file = join(dir, 'preview.jpg');
      await writeFile(file, jpeg, { flag: 'wx', mode: 0o600 });
      const marked = await provenance.mark({ ...mark, path: file, contentType: PREVIEW_TYPE, signal });
      const sizeBytes = await checkedOutput(marked, dir);
      if (sizeBytes > MAX_PREVIEW_BYTES) throw new Error(`it has ${sizeBytes} bytes`);
      await storeOutput({ ...store, path: marked, sizeBytes, signal });
    } catch (error) {
      fail(error);
    }
  }

  return {
    read,
    store(options) {
      stored = storeIt(options);
      return stored;
    },
    async end() {
      ended.abort(new Error('the preview is not wanted any more'));
      await Promise.all([read, stored]);
    },
  };
}

/** Returns a JPEG that shows the picture, or a moment of the video. @throws RenderError, or the signal's reason */
export async function previewOf(
  path: string,
  contentType: string,
  media: VideoReader | undefined,
  signal: AbortSignal,
): Promise<Buffer> {
  const { data, width, height, channels } = contentType.startsWith('image/')
    ? await readSmall(path, { width: SIDE, height: SIDE, fit: 'inside' }, MAX_PIXELS)
    : await momentOf(path, media, signal);
  signal.throwIfAborted();
  const raw = { width, height, channels: channels as 1 | 3 };
  return sharp(data, { raw }).jpeg({ quality: QUALITY }).toBuffer();
}

async function momentOf(path: string, media: VideoReader | undefined, signal: AbortSignal): Promise<Pixels> {
  if (!media) throw new Error('there are no media tools to read a video with');
  const info = await media.probe(path, 'video', signal);
  const scale = Math.min(1, SIDE / Math.max(info.video.width, info.video.height));
  const even = (length: number) => Math.max(2, 2 * Math.round((length * scale) / 2));
  const size = { width: even(info.video.width), height: even(info.video.height) };
  const wanted = Math.min(SHOWN_US, (info.durationSec * 1e6) / 4);
  let shown: Pixels | undefined;
  for await (const frame of media.decodeVideo(path, info, { signal, size })) {
    if (shown && frame.ptsUs < wanted) continue;
    shown = regionToRgb(frame, { x: 0, y: 0, ...size }, info.video.color);
    if (frame.ptsUs >= wanted) break;
  }
  if (!shown) throw new Error('the video has no frame');
  return shown;
}
