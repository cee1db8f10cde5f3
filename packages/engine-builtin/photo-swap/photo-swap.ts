import { rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { RenderError, type RenderResult, type RenderStage } from '@semblance/engine-api/engine';
import type { InspectWork } from '@semblance/engine-api/render-work';
import { cropsOf } from '@semblance/vision/face-mesh';
import {
  CONTENT_TYPES,
  EXTENSIONS,
  encodeBase,
  readBase,
  readFace,
} from '@semblance/vision/image/picture-file';
import { faceCounts } from '../findings/face-counts.ts';
import {
  faceHints,
  hintsOfLeft,
  keptFeatures,
  LOOKED_AT,
  severalFaces,
  sourceHints,
} from '../findings/hints.ts';
import { type MappingWork, mappingOf } from '../people/mapping.ts';
import type { Inspector, Renderer, RenderTools } from '../renderer.ts';
import type { ShownFeatures } from '../swap/shown-features.ts';
import { drawnWidth } from '../swap/small-face.ts';
import { prepareSource } from '../swap/source-face.ts';
import { swapFace } from '../swap/swap-face.ts';
import { IMAGE, type Steps, type Swapped } from './steps.ts';
import { type MappedSwap, swapMapped } from './swap-mapped.ts';

const FACE = { role: 'face', name: 'face picture' };

export interface PhotoSwapJob {
  /** Path of the base image. */
  readonly image: string;
  /** Path of the face picture. */
  readonly face: string;
  /** Who gets which face. */
  readonly mapping?: MappingWork;
  readonly outputDir: string;
}

export type PhotoSwapTools = Pick<RenderTools, 'finder' | 'settings' | 'checkpoint' | 'onProgress'>;

/** Runs Photo Swap in a worker thread. */
export const renderPhotoSwap: Renderer = (work, tools) =>
  photoSwap({ ...picturesOf(work), outputDir: work.outputDir }, tools);

/** Faces that an inspection looks at closely, the most prominent ones. A picture of thirty faces takes ten seconds. */
const CLOSELY = 6;

/** Looks as the render does, but draws nothing. It takes the features of {@link CLOSELY} faces for those of all. */
export const inspectPhotoSwap: Inspector = async (work, { finder, settings, checkpoint }) =>
  (
    await swapped(
      picturesOf(work),
      { finder, settings },
      { lap: checkpoint, progress: () => undefined, checkpoint, draw: false },
    )
  ).findings;

function picturesOf(work: InspectWork): Pick<PhotoSwapJob, 'image' | 'face' | 'mapping'> {
  const { image, face } = work.inputs;
  if (!image || !face)
    throw new RenderError('processing_failed', 'Photo Swap needs the inputs image and face.');
  const mapping = mappingOf(work);
  return { image, face, ...(mapping && { mapping }) };
}

/**
 * Reads both pictures and swaps the faces of the base.
 * @throws RenderError as {@link photoSwap}
 */
export async function swapped(
  job: Pick<PhotoSwapJob, 'face' | 'mapping'> & Pick<MappedSwap, 'image' | 'name' | 'targetsOf'>,
  { finder, settings }: Pick<PhotoSwapTools, 'finder' | 'settings'>,
  { checkpoint, lap, progress, draw }: Steps,
): Promise<Swapped> {
  if (job.mapping)
    return swapMapped(
      { ...job, mapping: job.mapping },
      { finder, settings },
      { checkpoint, lap, progress, draw },
    );
  const { name = IMAGE } = job;
  const face = await readFace(job.face);
  checkpoint();
  const base = typeof job.image === 'string' ? await readBase(job.image) : job.image;
  lap('decode', 0.15, 'detect');
  const { faces: sources, left: others } = await finder.look(face, checkpoint);
  const [source] = sources;
  if (!source) {
    const message = 'No face was found in the face picture (face_key).';
    throw new RenderError('face_not_detected', message, { findings: { hints: hintsOfLeft(others, FACE) } });
  }
  const { faces: targets, left } = await finder.look(base.picture, checkpoint);
  const [target] = targets;
  lap('detect', 0.4, 'swap');
  const times: Record<string, number> = {};
  // All faces share one patch, so it is as fine as the widest face needs.
  const widest = target ? Math.max(...targets.map(({ width }) => drawnWidth(width))) : LOOKED_AT;
  const start = performance.now();
  const cover = await finder.coverOf(cropsOf(face), source);
  const prepared = prepareSource(face, source, widest, { ...settings, cover });
  times.source = performance.now() - start;
  const ofSource = [
    ...severalFaces(sources.length, FACE),
    ...faceHints(source, FACE, cropsOf(face)),
    ...sourceHints(prepared, FACE),
  ];
  if (!target) {
    const findings = { faces: faceCounts(0, left), hints: [...ofSource, ...hintsOfLeft(left, name)] };
    const message = `No face was found in the ${name.name} (${name.field}).`;
    throw new RenderError('face_not_detected', message, { findings });
  }
  // Soon it is painted over.
  const ofTarget = faceHints(target, name, cropsOf(base.picture));
  const taken: ShownFeatures[] = [];
  for (const [index, place] of (draw ? targets : targets.slice(0, CLOSELY)).entries()) {
    checkpoint();
    const cover = await finder.coverOf(cropsOf(base.picture), place, true);
    taken.push(swapFace(base.picture, place, prepared, { cover, times, draw }));
    progress(0.4 + (0.4 * (index + 1)) / targets.length, 'swap');
  }
  const hints = [...ofSource, ...ofTarget, ...keptFeatures(taken)];
  return { base, faces: targets.length, times, findings: { faces: faceCounts(targets.length, left), hints } };
}

/**
 * Puts the most prominent face of one picture onto the faces of another. Writes the result as
 * `output.{jpg,png,webp}`, completely or not at all.
 * @throws RenderError `face_not_detected`, `unsupported_format`, `input_too_large`
 */
export async function photoSwap(job: PhotoSwapJob, tools: PhotoSwapTools): Promise<RenderResult> {
  const { checkpoint, onProgress } = tools;
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
  const { base, faces, times, findings } = await swapped(job, tools, {
    checkpoint,
    lap,
    progress: onProgress,
    draw: true,
  });
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
    details: { faces, width, height },
    findings,
  };
}
