import { rename, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { raceAbort } from '@semblance/common/async/abort';
import { RenderError, type RenderRequest, type RenderResult } from '@semblance/engine-api/engine';
import {
  CONTENT_TYPES,
  EXTENSIONS,
  encodeBase,
  readBase,
  readFace,
} from '@semblance/vision/image/picture-file';
import type { FaceSwap } from './face-swap.ts';
import { StageLog } from './stages/models.ts';

/**
 * Puts the most prominent face of one picture onto the faces of another. Writes the result as
 * `output.{jpg,png,webp}`, completely or not at all.
 * @throws RenderError `face_not_detected`, `unsupported_format`, `input_too_large`
 */
export async function photoSwap(swap: FaceSwap, request: RenderRequest): Promise<RenderResult> {
  const { inputs, outputDir, signal, onProgress } = request;
  if (!inputs.image || !inputs.face) {
    throw new RenderError('processing_failed', 'Photo Swap needs the inputs image and face.');
  }
  const log = new StageLog();
  const step = (fraction: number, stage: string): void => {
    signal.throwIfAborted();
    onProgress(fraction, stage);
  };
  step(0, 'decode');
  const { face, image } = inputs;
  const [source, base] = await log.own('decode', () =>
    raceAbort(signal, Promise.all([readFace(face), readBase(image)])),
  );
  step(0.15, 'detect');
  const identity = await swap.identify(source, signal, log);
  if (!identity)
    throw new RenderError('face_not_detected', 'No face was found in the face picture (face_key).');
  step(0.3, 'swap');
  const { picture } = base;
  const faces = await swap.swapPicture(picture, identity, signal, log);
  if (faces === 0) {
    throw new RenderError('face_not_detected', 'No face was found in the base image (image_key).');
  }
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
    details: { faces, width: picture.width, height: picture.height, ...log.makers },
  };
}
