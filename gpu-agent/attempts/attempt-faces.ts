import { faceRoles } from '@semblance/engine-api/capabilities';
import type { EngineCapability } from '@semblance/engine-api/engine';
import { type Findings, type Hint, MAX_FINDINGS } from '@semblance/engine-api/findings';
import type { InputLink } from '../assets/fetch-inputs.ts';
import type { AttemptWork } from './start-request.ts';

type Offer = Pick<EngineCapability, 'severalFaces'>;

/** Returns the inputs that an engine gets: of several pictures of a face the first, unless it takes several. */
export function inputsFor(
  { inputs }: Pick<AttemptWork, 'inputs'>,
  { severalFaces }: Offer,
): readonly InputLink[] {
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
