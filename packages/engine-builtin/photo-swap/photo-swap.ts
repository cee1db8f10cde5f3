import { rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { RenderError, type RenderResult, type RenderStage } from '@semblance/engine-api/engine';
import type { FaceFinder } from '@semblance/vision/face-finder';
import { cropsOf } from '@semblance/vision/face-mesh';
import {
  CONTENT_TYPES,
  EXTENSIONS,
  encodeBase,
  readBase,
  readFace,
} from '@semblance/vision/image/picture-file';
import { faceCounts } from '../findings/face-counts.ts';
import { faceHints, keptFeatures, severalFaces, sourceHints } from '../findings/hints.ts';
import type { Renderer } from '../renderer.ts';
import type { ShownFeatures } from '../swap/shown-features.ts';
import { prepareSource } from '../swap/source-face.ts';
import { swapFace } from '../swap/swap-face.ts';

const IMAGE = { role: 'image', name: 'base image' };
const FACE = { role: 'face', name: 'face picture' };

export interface PhotoSwapJob {
  /** Path of the base image. */
  readonly image: string;
  /** Path of the face picture. */
  readonly face: string;
  readonly outputDir: string;
}

export interface PhotoSwapTools {
  readonly finder: FaceFinder;
  /** The setting SEMBLANCE_SWAP_LIKENESS; undefined: its default. */
  readonly likeness?: number | undefined;
  /** Throws when the render was cancelled. It is called at least every few tens of milliseconds. */
  readonly checkpoint: () => void;
  readonly onProgress: (fraction: number, stage: string) => void;
}

/** Runs Photo Swap in a worker thread. */
export const renderPhotoSwap: Renderer = ({ inputs, outputDir }, tools) => {
  const { image, face } = inputs;
  if (!image || !face)
    throw new RenderError('processing_failed', 'Photo Swap needs the inputs image and face.');
  return photoSwap({ image, face, outputDir }, tools);
};

/**
 * Puts the most prominent face of one picture onto the faces of another. Writes the result as
 * `output.{jpg,png,webp}`, completely or not at all.
 * @throws RenderError `face_not_detected`, `unsupported_format`, `input_too_large`
 */
export async function photoSwap(job: PhotoSwapJob, tools: PhotoSwapTools): Promise<RenderResult> {
  const { finder, likeness, checkpoint, onProgress } = tools;
  const stages: RenderStage[] = [];
  let last = performance.now();
  const lap = (name: string, fraction: number, next: string): void => {
    const now = performance.now();
    stages.push({ name, milliseconds: now - last });
    last = now;
    onProgress(fraction, next);
    checkpoint();
  };
  onProgress(0, 'decode');
  const face = await readFace(job.face);
  checkpoint();
  const base = await readBase(job.image);
  lap('decode', 0.15, 'detect');
  const sources = (await finder.look(face, checkpoint)).faces;
  const [source] = sources;
  if (!source)
    throw new RenderError('face_not_detected', 'No face was found in the face picture (face_key).');
  const { faces: targets, left } = await finder.look(base.picture, checkpoint);
  const [target] = targets;
  if (!target) {
    throw new RenderError('face_not_detected', 'No face was found in the base image (image_key).');
  }
  lap('detect', 0.4, 'swap');
  const times: Record<string, number> = {};
  // All faces share one patch, so it is as fine as the widest face needs.
  const widest = Math.max(...targets.map(({ width }) => width));
  const start = performance.now();
  const sourceCover = await finder.coverOf(cropsOf(face), source);
  const prepared = prepareSource(face, source, widest, { likeness, cover: sourceCover });
  times.source = performance.now() - start;
  const taken: ShownFeatures[] = [];
  for (const [index, place] of targets.entries()) {
    checkpoint();
    const cover = await finder.coverOf(cropsOf(base.picture), place);
    taken.push(swapFace(base.picture, place, prepared, { cover, times }));
    onProgress(0.4 + (0.4 * (index + 1)) / targets.length, 'swap');
  }
  for (const [name, milliseconds] of Object.entries(times)) stages.push({ name, milliseconds });
  last = performance.now();
  checkpoint();
  onProgress(0.8, 'encode');
  const file = await encodeBase(base);
  lap('encode', 0.95, 'write');
  const outputPath = join(job.outputDir, `output.${EXTENSIONS[base.format]}`);
  const partial = `${outputPath}.part`;
  try {
    await writeFile(partial, file);
    checkpoint();
    await rename(partial, outputPath);
  } catch (error) {
    await rm(partial, { force: true });
    throw error;
  }
  stages.push({ name: 'write', milliseconds: performance.now() - last });
  onProgress(1, 'done');
  const { width, height } = base.picture;
  return {
    outputPath,
    contentType: CONTENT_TYPES[base.format],
    units: { unit: 'image', quantity: 1 },
    stages,
    details: { faces: targets.length, width, height },
    findings: {
      faces: faceCounts(targets.length, left),
      hints: [
        ...severalFaces(sources.length, FACE),
        ...faceHints(source, FACE),
        ...sourceHints(prepared, FACE),
        ...faceHints(target, IMAGE),
        ...keptFeatures(taken),
      ],
    },
  };
}
