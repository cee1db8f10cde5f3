import { raceAbort } from '@semblance/common/async/abort';
import { RenderError } from '@semblance/engine-api/engine';
import type { Hint } from '@semblance/engine-api/findings';
import type { Picture } from '@semblance/engine-api/picture';
import { coveredOf } from '@semblance/engine-builtin/animate/covered';
import {
  faceHints,
  hintsOfLeft,
  LOOKED_AT,
  severalFaces,
  sourceHints,
} from '@semblance/engine-builtin/findings/hints';
import { prepareSource } from '@semblance/engine-builtin/swap/source-face';
import { cropsOf } from '@semblance/vision/face-mesh';
import { readFace } from '@semblance/vision/image/picture-file';
import type { FaceSwap, Identity } from './face-swap.ts';
import type { FurtherFace } from './model-swap.ts';
import type { StageLog } from './stages/models.ts';

const FACE = { role: 'face', name: 'face picture' };

export interface FoundIdentity {
  readonly identity: Identity;
  /** Hints about the picture of the face. */
  readonly hints: readonly Hint[];
}

/**
 * Returns the most prominent face of a picture as a source identity.
 * @param others paths of further pictures of the person: their embeddings are averaged with that of the first
 * @throws RenderError `face_not_detected`
 */
export async function findIdentity(
  swap: FaceSwap,
  picture: Picture,
  signal: AbortSignal,
  log: StageLog,
  others: readonly string[] = [],
): Promise<FoundIdentity> {
  const { faces, left } = await swap.places.look(picture, signal, log);
  const [face] = faces;
  const further: FurtherFace[] = [];
  for (const path of others) {
    const one = await raceAbort(signal, readFace(path));
    const { faces: seen } = await swap.places.look(one, signal, log);
    if (!seen[0]) throw new RenderError('face_not_detected', 'No face was found in a picture of face_keys.');
    further.push({ picture: one, five: seen[0].five });
  }
  const identity = face && (await swap.identify(picture, face, signal, log, further));
  if (!identity) {
    const message = 'No face was found in the face picture (face_key).';
    throw new RenderError('face_not_detected', message, { findings: { hints: hintsOfLeft(left, FACE) } });
  }
  const hints = [...severalFaces(faces.length, FACE), ...identityHints(swap, identity)];
  return { identity, hints };
}

function identityHints(swap: FaceSwap, { picture, face: { mesh }, cover }: Identity): Hint[] {
  if (!mesh) return [];
  const source = prepareSource(picture, mesh, LOOKED_AT, { cover });
  // Only builtin leaves glasses out and keeps hidden features; nobody knows what a model makes of them.
  const ofSource = swap.byMesh
    ? sourceHints(source, FACE)
    : sourceHints(source, FACE, cover && coveredOf(cover, mesh)).filter(({ code }) => code !== 'glasses');
  return [...faceHints(mesh, FACE, cropsOf(picture)), ...ofSource];
}
