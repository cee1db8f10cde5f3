import { faceRoles } from '@semblance/engine-api/capabilities';
import { type EngineCapability, RenderError } from '@semblance/engine-api/engine';
import { type Findings, type Hint, MAX_FINDINGS } from '@semblance/engine-api/findings';
import { FACES_PARAMETER } from '@semblance/engine-api/people';
import type { InputLink } from '../assets/fetch-inputs.ts';
import type { AttemptWork } from './start-request.ts';

type Offer = Pick<EngineCapability, 'severalFaces' | 'mapsFaces'>;

/**
 * Returns the inputs that an engine gets: of several pictures of a face the first, unless it takes several.
 * @throws RenderError for a mapping that the engine does not take
 */
export function inputsFor(
  { inputs, parameters }: Pick<AttemptWork, 'inputs' | 'parameters'>,
  { severalFaces, mapsFaces }: Offer,
): readonly InputLink[] {
  // The submit was checked against all agents; they may have changed since, and a RenderJob may be made by hand.
  if (!mapsFaces && Object.hasOwn(parameters, FACES_PARAMETER))
    throw new RenderError(
      'processing_failed',
      'The engine does not tell people of a picture or video apart.',
    );
  if (severalFaces) return inputs;
  const [, ...further] = rolesOf(inputs);
  return inputs.filter(({ role }) => !further.includes(role));
}

/** Returns findings with the hint that only the first picture is used, where an engine takes no more. */
export function withFirstFace(
  findings: Findings | undefined,
  { inputs }: Pick<AttemptWork, 'inputs'>,
  { severalFaces }: Offer,
): Findings | undefined {
  const { length } = rolesOf(inputs);
  if (severalFaces || length < 2) return findings;
  const hint: Hint = {
    code: 'picture_chosen',
    message: `Of the ${length} pictures of face_keys, the first is used: this engine takes one.`,
    input: 'face',
  };
  return { ...findings, hints: [hint, ...(findings?.hints ?? [])].slice(0, MAX_FINDINGS) };
}

function rolesOf(inputs: readonly InputLink[]): readonly string[] {
  return faceRoles(Object.fromEntries(inputs.map(({ role }) => [role, true])));
}
