import { ApiError } from '@semblance/common/errors';
import type { GpuAgent } from '@semblance/crds/gen/gpuagents';
import { CAPABILITIES, isCapability } from '@semblance/engine-api/capabilities';
import {
  FACES_PARAMETER,
  type FaceMapping,
  MAX_MAPPED,
  type MappedPerson,
  mappedField,
  mappedRole,
  NAMED_PEOPLE,
  UNSUITABLE,
} from '@semblance/engine-api/people';
import type { Submission } from '../jobs/submission.ts';
import type { Sql } from '../storage/sql.ts';
import { type FaceRow, readFaces } from './face-rows.ts';

/**
 * A mapping as a submit is stored with it: who gets the input of which role, without what people are recognised by,
 * which goes with the file. Where a capability is about one person, it has that one alone.
 */
export interface StoredMapping {
  readonly people: readonly { readonly id: string; readonly input: string }[];
  /** Role of the picture for everybody else; absent: they stay. */
  readonly others?: string;
}

type Checked = Pick<Submission, 'accountId' | 'capability' | 'inputs' | 'parameters' | 'idempotencyKey'>;

/** Role of the picture or video whose people get a face each. */
const TARGETS: Readonly<Record<string, string>> = { 'face-swap-image': 'image', 'face-swap': 'video' };

/** Returns the role of the picture or video with the people of a mapping; undefined: the capability takes none. */
const targetOf = (capability: string): string | undefined =>
  Object.hasOwn(TARGETS, capability) ? TARGETS[capability] : namedBy(capability)?.target;

const namedBy = (capability: string) =>
  Object.hasOwn(NAMED_PEOPLE, capability) ? NAMED_PEOPLE[capability] : undefined;

/** Returns the mapping of a submit; undefined when it has none. @throws ApiError for one of another form */
export function storedMapping({
  capability,
  parameters,
  inputs,
}: Omit<Checked, 'accountId' | 'idempotencyKey'>): StoredMapping | undefined {
  const text = parameters[FACES_PARAMETER];
  if (text === undefined) return undefined;
  const named = namedBy(capability);
  const fault = new ApiError(
    'invalid_input',
    `\`${named?.field ?? 'faces'}\` has a form that cannot be used.`,
  );
  if (targetOf(capability) === undefined) throw fault;
  let said: Partial<StoredMapping>;
  try {
    said = JSON.parse(text) as Partial<StoredMapping>;
  } catch {
    throw fault;
  }
  const { people, others } = said ?? {};
  const wellFormed =
    Array.isArray(people) &&
    people.length > 0 &&
    people.length <= (named ? 1 : MAX_MAPPED) &&
    people.every(
      ({ id, input }, i) =>
        typeof id === 'string' && input === (named?.input ?? mappedRole(i)) && inputs[input] !== undefined,
    ) &&
    (others === undefined || (others === 'face' && !named));
  if (!wellFormed) throw fault;
  return { people, ...(others !== undefined && { others }) };
}

/**
 * Checks the mapping of a submit: its people are of the picture or video of the job, each once, and can be given a face.
 * A repeat is not checked again: it finds its job.
 * @param agents those that there are; a job may go to any of them
 * @throws ApiError invalid_input naming the entry
 */
export async function checkFaces(sql: Sql, submission: Checked, agents: readonly GpuAgent[]): Promise<void> {
  const mapping = storedMapping(submission);
  if (!mapping || (await isRepeat(sql, submission))) return;
  const { accountId, capability, inputs } = submission;
  const role = targetOf(capability) as string;
  const target = inputs[role] as string;
  const named = namedBy(capability);
  const field = isCapability(capability)
    ? (CAPABILITIES[capability].inputs as Record<string, { field: string }>)[role]?.field
    : role;
  const faults: string[] = [];
  const keys = mapping.people.map(({ input }) => inputs[input] as string);
  const uploads = await sql<{ file_key: string; kind: string }[]>`
    select file_key, kind from uploads
    where file_key = any(${[...keys, target]}::text[]) and account_id = ${accountId} and completed_at is not null`;
  const kinds = new Map(uploads.map((row) => [row.file_key, row.kind]));
  const found = kinds.has(target) ? await readFaces(sql, target) : undefined;
  const seen = new Set<string>();
  for (const [i, { id, input }] of mapping.people.entries()) {
    const key = inputs[input] as string;
    const keyField = mappedField(input);
    // Of one person the inputs are those of any submit, which are checked with it.
    if (keyField && !kinds.has(key)) faults.push(`${keyField} names no upload of yours`);
    else if (keyField && kinds.get(key) !== 'image') faults.push(`${keyField} must be the key of an image`);
    const fault = faceFault(
      found?.faces.find((face) => face.face_id === id),
      { twice: seen.has(id), field, verb: named ? 'told from others' : 'given a face' },
    );
    if (fault) faults.push(`${named?.field ?? `faces.${i}.face_id`} ${fault}`);
    seen.add(id);
  }
  if (faults.length > 0) throw new ApiError('invalid_input', `${faults.join('; ')}.`);
  if (!allMapFaces(agents, capability))
    throw new ApiError(
      'invalid_input',
      named
        ? `Nobody can be chosen on this installation: leave \`${named.field}\` out.`
        : 'No mapping of faces can be made on this installation: leave `faces` out.',
    );
}

function faceFault(
  face: FaceRow | undefined,
  {
    twice,
    field,
    verb,
  }: { readonly twice: boolean; readonly field: string | undefined; readonly verb: string },
): string | undefined {
  if (!face) return `is of nobody whom POST /faces found in ${field}`;
  if (twice) return 'is named twice';
  const [code] = face.not_target;
  if (code === undefined) return undefined;
  const why = UNSUITABLE[code as keyof typeof UNSUITABLE] ?? code;
  return `cannot be ${verb} (${code}): ${why.replace(/\.$/, '').replace(/^The/, 'the')}`;
}

/** Whether all agents that have the capability tell people by a mapping; true while there is none. */
function allMapFaces(agents: readonly GpuAgent[], capability: string): boolean {
  return agents
    .filter(({ status }) => !status?.draining)
    .flatMap(({ status }) => status?.engines ?? [])
    .flatMap(({ capabilities }) => capabilities.filter(({ name }) => name === capability))
    .every(({ mapsFaces }) => mapsFaces === true);
}

async function isRepeat(sql: Sql, { accountId, idempotencyKey }: Checked): Promise<boolean> {
  if (idempotencyKey === undefined) return false;
  const rows =
    await sql`select 1 from idempotency_keys where account_id = ${accountId} and key = ${idempotencyKey}`;
  return rows.length > 0;
}

/**
 * Returns parameters with a stored mapping in the form that engines take: everybody whom the file shows, with what each
 * is recognised by. The file stays while a job is made from it, so the same mapping always gives the same text.
 * @param inputs of the job
 */
export async function withFaces(
  sql: Sql,
  { capability, inputs, parameters }: Pick<Submission, 'capability' | 'inputs' | 'parameters'>,
): Promise<Readonly<Record<string, string>>> {
  const mapping = storedMapping({ capability, inputs, parameters });
  if (!mapping) return parameters;
  const found = await readFaces(sql, inputs[targetOf(capability) as string] as string);
  const people = (found?.faces ?? []).map(({ face_id: id, box, look }): MappedPerson => {
    const input = mapping.people.find((one) => one.id === id)?.input;
    const { x, y, width, height } = box;
    return { id, ...(input !== undefined && { input }), box: { x, y, width, height }, look };
  });
  const { others } = mapping;
  const full: FaceMapping = { people, ...(others !== undefined && { others }) };
  return { ...parameters, [FACES_PARAMETER]: JSON.stringify(full) };
}
