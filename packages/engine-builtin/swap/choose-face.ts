import { faceRoles } from '@semblance/engine-api/capabilities';
import { RenderError } from '@semblance/engine-api/engine';
import type { Findings, Hint } from '@semblance/engine-api/findings';
import { type FaceFinder, yaw } from '@semblance/vision/face-finder';
import { cropsOf } from '@semblance/vision/face-mesh';
import { type FaceRecogniser, sameness } from '@semblance/vision/face-recogniser';
import { readFace } from '@semblance/vision/image/picture-file';
import { hintsOfLeft } from '../findings/hints.ts';

/**
 * Similarity to the first picture below which a picture shows another person. Two people have about 0.4, and one person
 * 0.7 and more; this is below what recognises somebody, because a refusal costs more than a mixed face.
 */
const OTHER = 0.5;
/** Width of a face, in pixels, from which a wider one is no better. */
const WIDE = 512;

export interface ChooseFaceTools {
  readonly finder: FaceFinder;
  readonly recogniser: () => Promise<FaceRecogniser>;
  readonly checkpoint: () => void;
}

export interface ChosenFace {
  /** The inputs with the best picture as `face`, and without further ones. */
  readonly inputs: Readonly<Record<string, string>>;
  /** Paths of the other pictures. */
  readonly others: readonly string[];
  /** Place of the best picture, from 1, and their number; undefined when there is one. */
  readonly chosen: { readonly place: number; readonly of: number } | undefined;
}

/**
 * Chooses the best of several pictures of a face: that which shows it largest and most from the front. With one
 * picture, nothing is looked at.
 * @throws RenderError `face_not_detected` for a picture without a face; `processing_failed` for another person than that
 *   of the first picture
 */
export async function chooseFace(
  inputs: Readonly<Record<string, string>>,
  tools: ChooseFaceTools,
): Promise<ChosenFace> {
  const roles = faceRoles(inputs);
  if (roles.length < 2) return { inputs, others: [], chosen: undefined };
  let first: Float32Array | undefined;
  let best = { place: 0, score: Number.NEGATIVE_INFINITY };
  for (const [index, role] of roles.entries()) {
    tools.checkpoint();
    const { score, descriptor } = await seen(inputs[role] as string, index + 1, role, tools);
    first ??= descriptor;
    if (sameness(first, descriptor) < OTHER)
      throw new RenderError(
        'processing_failed',
        `Picture ${index + 1} of face_keys shows another person than the first.`,
      );
    if (score > best.score) best = { place: index + 1, score };
  }
  const paths = roles.map((role) => inputs[role] as string);
  const kept = Object.entries(inputs).filter(([role]) => !roles.includes(role));
  return {
    inputs: { ...Object.fromEntries(kept), face: paths[best.place - 1] as string },
    others: paths.filter((_, i) => i !== best.place - 1),
    chosen: { place: best.place, of: roles.length },
  };
}

async function seen(
  path: string,
  place: number,
  role: string,
  { finder, recogniser, checkpoint }: ChooseFaceTools,
) {
  const picture = await readFace(path);
  const { faces, left } = await finder.look(picture, checkpoint);
  const [face] = faces;
  if (!face) {
    const hints = hintsOfLeft(left, { role, name: `picture ${place} of face_keys` });
    const message = `No face was found in picture ${place} of face_keys.`;
    throw new RenderError('face_not_detected', message, { findings: { hints } });
  }
  const descriptor = await (await recogniser()).describe(cropsOf(picture), face);
  return { score: Math.min(1, face.width / WIDE) * Math.max(0, Math.cos(yaw(face))) ** 2, descriptor };
}

/** Returns findings with the hint that one of several pictures is used. */
export function withChosen(findings: Findings | undefined, { chosen }: ChosenFace): Findings | undefined {
  if (!chosen) return findings;
  const hint: Hint = {
    code: 'picture_chosen',
    message: `Of the ${chosen.of} pictures of face_keys, picture ${chosen.place} is used: it shows the face best.`,
    input: 'face',
  };
  return { ...findings, hints: [hint, ...(findings?.hints ?? [])] };
}
