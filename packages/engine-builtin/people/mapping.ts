import { RenderError } from '@semblance/engine-api/engine';
import type { MappedFace } from '@semblance/engine-api/findings';
import {
  type FaceMapping,
  LOOK_VALUES,
  lookOfText,
  MAX_PEOPLE,
  mappingIn,
} from '@semblance/engine-api/people';
import type { InspectWork } from '@semblance/engine-api/render-work';
import type { Input } from '../findings/hints.ts';

/** A mapping with the files of its pictures. */
export interface MappingWork extends FaceMapping {
  /** Role → path. */
  readonly inputs: Readonly<Record<string, string>>;
}

/** Returns the mapping of a render; undefined when it has none. @throws RenderError for one that names no input */
export function mappingOf({
  inputs,
  parameters,
}: Pick<InspectWork, 'inputs' | 'parameters'>): MappingWork | undefined {
  const mapping = readMapping(parameters);
  if (!mapping) return undefined;
  const work = { ...mapping, inputs };
  for (const role of rolesOf(work)) pathOf(work, role);
  return work;
}

/** Reads a mapping; a RenderJob may be made by hand. @throws RenderError */
function readMapping(parameters: InspectWork['parameters']): FaceMapping | undefined {
  try {
    const mapping = mappingIn(parameters);
    if (!mapping) return undefined;
    const isText = (value: unknown) => value === undefined || typeof value === 'string';
    const wellFormed = mapping.people.every(
      ({ id, input, box, look }) =>
        typeof id === 'string' &&
        isText(input) &&
        [box.x, box.y, box.width, box.height].every(Number.isFinite) &&
        lookOfText(look).length === LOOK_VALUES,
    );
    if (wellFormed && mapping.people.length <= MAX_PEOPLE && isText(mapping.others)) return mapping;
  } catch {
    // It is told below.
  }
  throw new RenderError('processing_failed', 'The parameter faces is no mapping of faces.');
}

/** Returns the roles of the pictures that a mapping uses: that of everybody else first, where there is one. */
export function rolesOf({ people, others }: FaceMapping): string[] {
  return [...new Set([others, ...people.map(({ input }) => input)])].filter((role) => role !== undefined);
}

/** Returns the path of a picture of a mapping. @throws RenderError */
export function pathOf({ inputs }: MappingWork, role: string): string {
  const path = inputs[role];
  if (path === undefined)
    throw new RenderError('processing_failed', `The mapping names the input ${role}, which is not there.`);
  return path;
}

/** Returns how hints name the picture of a role. */
export function inputOf(role: string): Input {
  const place = /^face_of_(\d+)$/.exec(role)?.[1];
  return { role, name: place === undefined ? 'face picture' : `picture ${place} of faces` };
}

/** Returns what became of each person, by the frames in which each got a face. */
export function mappedFaces(
  { people, others }: FaceMapping,
  frames: ReadonlyMap<string, number>,
): MappedFace[] {
  return people.map(({ id, input = others }) => {
    const count = frames.get(id) ?? 0;
    return input === undefined || count === 0 ? { id, frames: 0 } : { id, input, frames: count };
  });
}
