import { rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { raceAbort } from '@semblance/common/async/abort';
import {
  type InspectRequest,
  RenderError,
  type RenderRequest,
  type RenderResult,
} from '@semblance/engine-api/engine';
import type { Findings } from '@semblance/engine-api/findings';
import { faceCounts } from '@semblance/engine-builtin/findings/face-counts';
import { faceHints, hintsOfLeft, keptFeatures } from '@semblance/engine-builtin/findings/hints';
import type { ShownFeatures } from '@semblance/engine-builtin/swap/shown-features';
import { cropsOf } from '@semblance/vision/face-mesh';
import {
  type BasePicture,
  CONTENT_TYPES,
  EXTENSIONS,
  encodeBase,
  readBase,
  readFace,
} from '@semblance/vision/image/picture-file';
import type { PlacedFace } from './face-places.ts';
import type { FaceSwap, Identity } from './face-swap.ts';
import { findIdentity } from './source-identity.ts';
import { StageLog } from './stages/models.ts';

const IMAGE = { role: 'image', name: 'base image' };

/**
 * Puts the most prominent face of one picture onto the faces of another. Writes the result as
 * `output.{jpg,png,webp}`, completely or not at all.
 * @param others paths of further pictures of the face
 * @throws RenderError `face_not_detected`, `unsupported_format`, `input_too_large`
 */
export async function photoSwap(
  swap: FaceSwap,
  request: RenderRequest,
  others: readonly string[] = [],
): Promise<RenderResult> {
  const { outputDir, signal, onProgress } = request;
  const log = new StageLog();
  const step = (fraction: number, stage: string): void => {
    signal.throwIfAborted();
    onProgress(fraction, stage);
  };
  const { base, faces, identity, findings } = await seen(swap, request, log, step, others);
  const { picture } = base;
  const taken = await swap.swapFaces(picture, faces, identity, signal, log);
  step(0.8, 'encode');
  const file = await log.own('encode', () => raceAbort(signal, encodeBase(base)));
  step(0.95, 'write');
  const outputPath = join(outputDir, `output.${EXTENSIONS[base.format]}`);
  const partial = `${outputPath}.part`;
  try {
    await log.own('write', () => writeFile(partial, file));
    signal.throwIfAborted();
    await rename(partial, outputPath);
  } catch (error) {
    await rm(partial, { force: true });
    throw error;
  }
  onProgress(1, 'done');
  return {
    outputPath,
    contentType: CONTENT_TYPES[base.format],
    units: { unit: 'image', quantity: 1 },
    stages: log.stages,
    details: {
      ...{ faces: faces.length, width: picture.width, height: picture.height, ...log.makers },
      ...(others.length > 0 ? { face_pictures: others.length + 1 } : {}),
    },
    findings: { ...withKept(findings, taken), models: log.models },
  };
}

/** Finds out what the render does, and writes nothing. No model draws: only `builtin` keeps features. */
export async function inspectPhotoSwap(swap: FaceSwap, request: InspectRequest): Promise<Findings> {
  const { signal } = request;
  const log = new StageLog();
  const { base, faces, identity, findings } = await seen(swap, request, log, () => signal.throwIfAborted());
  if (!swap.byMesh) return findings;
  const covered = await swap.covered(base.picture, faces, log);
  return withKept(findings, await swap.swapByMesh(base.picture, covered, identity, signal, log));
}

interface SeenPictures {
  readonly base: BasePicture;
  /** Faces of the base that are changed. */
  readonly faces: readonly PlacedFace[];
  readonly identity: Identity;
  readonly findings: Findings;
}

/** Reads both pictures and finds their faces. @throws RenderError as {@link photoSwap} */
async function seen(
  swap: FaceSwap,
  { inputs: { image, face }, signal }: InspectRequest,
  log: StageLog,
  step: (fraction: number, stage: string) => void,
  others: readonly string[] = [],
): Promise<SeenPictures> {
  if (!image || !face)
    throw new RenderError('processing_failed', 'Photo Swap needs the inputs image and face.');
  step(0, 'decode');
  const [source, base] = await log.own('decode', () =>
    raceAbort(signal, Promise.all([readFace(face), readBase(image)])),
  );
  step(0.15, 'detect');
  const { identity, hints } = await findIdentity(swap, source, signal, log, others);
  step(0.3, 'swap');
  const { faces, left } = await swap.findTargets(base.picture, signal, log);
  const counts = faceCounts(faces.length, left);
  const [target] = faces;
  if (!target) {
    const message = 'No face was found in the base image (image_key).';
    const findings = { faces: counts, hints: [...hints, ...hintsOfLeft(left, IMAGE)] };
    throw new RenderError('face_not_detected', message, { findings });
  }
  const ofTarget = target.mesh ? faceHints(target.mesh, IMAGE, cropsOf(base.picture)) : [];
  return { base, faces, identity, findings: { faces: counts, hints: [...hints, ...ofTarget] } };
}

function withKept(findings: Findings, taken: readonly ShownFeatures[]): Findings {
  return { ...findings, hints: [...findings.hints, ...keptFeatures(taken)] };
}
