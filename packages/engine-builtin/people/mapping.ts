import { RenderError } from '@semblance/engine-api/engine';
import type { MappedFace } from '@semblance/engine-api/findings';
import {
  type FaceMapping,
  LOOK_VALUES,
  lookOfText,
  MAX_PEOPLE,
  mappingIn,
  NAMED_PEOPLE,
} from '@semblance/engine-api/people';
import type { InspectWork } from '@semblance/engine-api/render-work';
import type { Input } from '../findings/hints.ts';
import type { RenderTools } from '../renderer.ts';
import { OnePerson } from './one-person.ts';

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

/**
 * Returns the one person that a mapping names, for a capability that is about one person of a video.
 * @throws RenderError for a mapping that names several, or nobody
 */
export function onePersonOf(
  work: Pick<InspectWork, 'capability' | 'inputs' | 'parameters'>,
  { recogniser, checkpoint }: Pick<RenderTools, 'recogniser' | 'checkpoint'>,
): { readonly mapping: FaceMapping; readonly id: string; readonly person: OnePerson } | undefined {
  const mapping = mappingOf(work);
  if (!mapping) return undefined;
  const [named, ...more] = mapping.people.filter(({ input }) => input !== undefined);
  if (!named || more.length > 0 || named.input !== NAMED_PEOPLE[work.capability]?.input || mapping.others)
    throw new RenderError('processing_failed', 'The parameter faces does not name one person.');
  if (!recogniser) throw new Error('one person cannot be told from others without a recogniser');
  return { mapping, id: named.id, person: new OnePerson(mapping, recogniser, checkpoint) };
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
