import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import type { MediaKind } from '@semblance/engine-api/capabilities';
import type { VideoFrame } from '@semblance/media/types';
import { readSmall } from '@semblance/vision/image/picture-file';
import { createSampledFrames, type OnStep } from '../looker/sampled-frames.ts';
import { PDQ_SIDE, type PdqHash, pdqHashes } from './pdq.ts';

/** Largest picture that is opened, in pixels. An input larger than engines accept is refused earlier. */
const MAX_PIXELS = 200_000_000;

const CHUNK = 256 * 1024;

/** Hashes of a picture or a frame: as it is, and mirrored. */
export type Fingerprint = readonly [PdqHash, PdqHash];

export interface Fingerprints {
  /** @throws the signal's reason */
  sha256(path: string, signal: AbortSignal, onStep?: OnStep): Promise<string>;
  /**
   * Yields the fingerprint of a picture, or of frames of a video; nothing for sound.
   * @throws RenderError when the file cannot be read; ContentCheckError when this machine cannot read such files
   */
  perceptual(path: string, kind: MediaKind, signal: AbortSignal, onStep?: OnStep): AsyncIterable<Fingerprint>;
  close(): Promise<void>;
}

export function createFingerprints(): Fingerprints {
  const frames = createSampledFrames();
  return {
    async sha256(path, signal, onStep) {
      signal.throwIfAborted();
      const hash = createHash('sha256');
      for await (const chunk of createReadStream(path, { signal, highWaterMark: CHUNK })) {
        hash.update(chunk as Buffer);
        onStep?.();
      }
      return hash.digest('hex');
    },
    async *perceptual(path, kind, signal, onStep) {
      if (kind === 'image') yield await ofPicture(path);
      if (kind !== 'video') return;
      for await (const { frame } of frames.of(path, PDQ_SIDE, signal, onStep)) yield ofFrame(frame);
    },
    close: () => frames.close(),
  };
}

async function ofPicture(path: string): Promise<Fingerprint> {
  // This decoder is as tolerant as the engines are.
  const size = { width: PDQ_SIDE, height: PDQ_SIDE, fit: 'inside' } as const;
  const { data, width, height, channels } = await readSmall(path, size, MAX_PIXELS);
  const luma = new Float32Array(width * height);
  const [red, green, blue] = channels >= 3 ? [0, 1, 2] : [0, 0, 0];
  for (let pixel = 0, at = 0; pixel < luma.length; pixel++, at += channels) {
    luma[pixel] =
      0.299 * (data[at + red] ?? 0) + 0.587 * (data[at + green] ?? 0) + 0.114 * (data[at + blue] ?? 0);
  }
  return pdqHashes(luma, width, height);
}

function ofFrame({ data, width, height }: VideoFrame): Fingerprint {
  // The range of the luma does not matter, because the bits are relative to the picture's own median.
  return pdqHashes(Float32Array.from(data.subarray(0, width * height)), width, height);
}
