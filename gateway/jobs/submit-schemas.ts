import { ApiError } from '@semblance/common/errors';
import { plainScript } from '@semblance/common/speech-markup';
import {
  CAPABILITIES,
  CAPABILITY_NAMES,
  type Capability,
  FACE_KEYS,
  FACES,
  faceRole,
  type MediaKind,
  takesFaces,
} from '@semblance/engine-api/capabilities';
import { FACES_PARAMETER, mappedRole, NAMED_PEOPLE } from '@semblance/engine-api/people';
import { GENDERS } from '@semblance/engine-api/speech';
import { z } from 'zod';
import { faultsOf } from '../http/faults.ts';
import {
  callbackUrl,
  engineOptions,
  expiresIn,
  faceId,
  faceKeys,
  faces,
  fileKey,
  metadata,
  optional,
  outputResolution,
  text,
} from './fields.ts';

export type JobCapability = {
  [Name in Capability]: (typeof CAPABILITIES)[Name]['shape'] extends 'job' ? Name : never;
}[Capability];

export const JOB_CAPABILITIES = CAPABILITY_NAMES.filter(
  (name): name is JobCapability => CAPABILITIES[name].shape === 'job',
);

const NOT_ENLARGED =
  'Most pixels of the output’s shorter side. A smaller video is not enlarged. When it is left out, the output has the size of the video. The charge goes by the size of the output.';

const script = text(5000)
  .superRefine((value, context) => {
    const plain = plainScript(value);
    if ('fault' in plain) context.addIssue(plain.fault);
  })
  .meta({
    description:
      'What is said: 1 to 5,000 characters, which are not blank. Of SSML, `break`, `sub`, `say-as` and `emphasis` are understood, within `speak`, `p` and `s`; any other element is refused.',
  });

/** Settings of each capability beside its inputs, by request field; the output is what the engine receives. */
const PARAMETERS: Record<JobCapability, z.ZodRawShape> = {
  'character-swap': {
    resolution: optional(
      z
        .enum(['1k', '2k'], 'must be "1k" or "2k"')
        .meta({ id: 'IdentitySwapResolution', description: 'Pixels of the longer side: 1024 or 2048.' }),
    )
      .transform((value) => value ?? '1k')
      .meta({
        description:
          'Most pixels of the output’s longer side: 1024 (`1k`, also when it is left out) or 2048 (`2k`). A smaller video is not enlarged. The charge goes by the size of the output.',
      }),
  },
  'face-swap': { output_resolution_p: optional(outputResolution).meta({ description: NOT_ENLARGED }) },
  'face-swap-image': {},
  'motion-control': {},
  avatar: {
    script,
    voice_id: optional(text(128)).meta({
      description:
        'The voice that speaks, 1 to 128 characters: an `id` of `GET /voices?for=avatar`, or one of its `variants`. Left out: the default voice of the language that fits the portrait or `voice`.',
    }),
    voice: optional(
      z
        .object(
          {
            gender: z
              .enum(GENDERS, 'must be "female" or "male"')
              .meta({ description: 'What the voice is to sound like.' }),
          },
          'must be an object with a gender',
        )
        .meta({ id: 'VoiceWish', description: 'What a voice is to sound like.' }),
    )
      .transform((voice) => voice?.gender)
      .meta({
        description:
          'In place of `voice_id`: what the default voice is to sound like. Left out: the portrait decides where it tells for sure, otherwise the language.',
        example: { gender: 'female' },
      }),
    language: optional(text(64)).meta({
      description:
        'The language of the script, 1 to 64 characters: a BCP 47 tag such as `de` or `pt-BR`; a region that no voice has is spoken as its language. Left out: the letters of the script decide.',
    }),
    output_resolution_p: optional(outputResolution).meta({
      description:
        'Most pixels of the output’s shorter side; 720 when it is left out. A smaller picture is not enlarged. The charge goes by the size of the output.',
    }),
  },
  'lip-sync': { output_resolution_p: optional(outputResolution).meta({ description: NOT_ENLARGED }) },
};

/** Names of settings for engines that differ from the request's. */
const ENGINE_NAMES: Readonly<Record<string, string>> = { voice: 'voice_gender' };

/** The checked body of a submit, in the terms of the control plane. */
export interface ParsedSubmit {
  /** Input role → file key. */
  readonly inputs: Record<string, string>;
  readonly parameters: Record<string, string>;
  /** Options of the engine, as text. */
  readonly engineOptions: Record<string, string>;
  readonly callbackUrl: string | undefined;
  readonly metadata: { readonly entries: Record<string, string> } | undefined;
  readonly expiresInSeconds: bigint | undefined;
}

export type SubmitParser = (body: unknown) => ParsedSubmit;

const FACE_KEY = CAPABILITIES['face-swap'].inputs.face.field;

const schemas = new Map<JobCapability, z.ZodObject>();

/**
 * Returns the schema of a capability's submit body; always the same object, so that it has one name in the OpenAPI
 * document.
 */
export function submitSchema(capability: JobCapability): z.ZodObject {
  let schema = schemas.get(capability);
  if (!schema) {
    const { title, inputs } = CAPABILITIES[capability];
    const fields = z.object(
      {
        ...Object.fromEntries(
          Object.values(inputs).map(({ field, kind }) => [
            field,
            field === FACE_KEY ? optional(fileKey).meta({ description: FACE_KEY_SAYS }) : keyOf(kind),
          ]),
        ),
        ...(takesFaces(capability) ? { [FACE_KEYS]: optional(faceKeys), [FACES]: optional(faces) } : {}),
        ...PARAMETERS[capability],
        ...namedPerson(capability),
        engine_options: optional(engineOptions).meta({
          description: 'Options of the engine by name. Left out: what the engine does by default.',
        }),
        callback_url: optional(callbackUrl),
        metadata: optional(metadata),
        expires_in: optional(expiresIn),
      },
      'The body must be a JSON object',
    );
    schema = withOneVoice(capability, withOneOfFaces(capability, fields)).meta({
      id: submitName(capability),
      description: `Submit of ${title}.`,
    });
    schemas.set(capability, schema);
  }
  return schema;
}

const FACE_KEY_SAYS =
  'Picture of the person whose face is put in: a file_key, exactly as POST /uploads answered it. With `faces` it is for everybody whom they do not name. Left out: `face_keys` or `faces` is needed in its place.';

/** Returns the schema of a required input. */
function keyOf(kind: MediaKind) {
  const what = kind === 'image' ? 'A picture' : kind === 'audio' ? 'A sound file' : 'A video';
  return fileKey.meta({
    ...fileKey.meta(),
    description: `${what}: its file_key, exactly as POST /uploads answered it.`,
  });
}

/** What a submit says with the id of one person. */
const NAMED_SAYS: Partial<Record<JobCapability, string>> = {
  'lip-sync':
    'Who speaks: a person whom `POST /faces` found in the video. The mouths of all others stay as they are, and so do frames without this person. Left out: the most prominent face speaks.',
  'character-swap':
    'Who is replaced: a person whom `POST /faces` found in the video. Frames without this person stay as they are. Left out: the most prominent person is replaced.',
  'motion-control':
    'Who drives: a person whom `POST /faces` found in the motion video. Left out: the most prominent face drives.',
};

/** Returns the field with the id of the one person that a capability is about, where there is one. */
function namedPerson(capability: JobCapability): z.ZodRawShape {
  const named = NAMED_PEOPLE[capability];
  return named ? { [named.field]: optional(faceId).meta({ description: NAMED_SAYS[capability] }) } : {};
}

/** Returns the name of a submit body in the document. */
export function submitName(capability: JobCapability): string {
  return `${pascal(CAPABILITIES[capability].feature)}Submit`;
}

type Body = Readonly<Record<string, unknown>>;
const has = (body: Body, field: string) => body[field] !== undefined && body[field] !== null;
/** Faults of both fields are told beside those of others. */
const when = ({ value }: { value: unknown }) => typeof value === 'object' && value !== null;

/** Returns a schema that wants `face_key`, `face_keys` or `faces`, where the capability takes a face. */
function withOneOfFaces(capability: JobCapability, schema: z.ZodObject): z.ZodObject {
  if (!takesFaces(capability)) return schema;
  return schema
    .refine((body: Body) => has(body, FACE_KEY) || has(body, FACE_KEYS) || has(body, FACES), {
      ...{ path: [FACE_KEY], error: 'is required', when },
    })
    .refine((body: Body) => !(has(body, FACE_KEY) && has(body, FACE_KEYS)), {
      ...{ path: [FACE_KEYS], error: 'and face_key exclude each other', when },
    });
}

/** Returns a schema that takes a voice by its name or by what it sounds like, not by both. */
function withOneVoice(capability: JobCapability, schema: z.ZodObject): z.ZodObject {
  if (capability !== 'avatar') return schema;
  return schema.refine((body: Body) => !(has(body, 'voice_id') && has(body, 'voice')), {
    ...{ path: ['voice'], error: 'and voice_id exclude each other', when },
  });
}

/** Converts `identity_swap` to `IdentitySwap`. */
function pascal(name: string): string {
  return name.replace(/(?:^|_)(\w)/g, (_, letter: string) => letter.toUpperCase());
}

/**
 * Returns the check of one capability's submit body. Unknown fields are ignored, so that a newer client is not
 * refused.
 * @returns a function that throws ApiError `invalid_input` naming every faulty field, without their values
 */
export function submitParser(capability: JobCapability): SubmitParser {
  const roles = Object.entries(CAPABILITIES[capability].inputs);
  const parameters = PARAMETERS[capability];
  const schema = submitSchema(capability);
  return (body) => {
    const result = schema.safeParse(body);
    if (!result.success) throw new ApiError('invalid_input', faultsOf(result.error.issues, body));
    const {
      engine_options: given = {},
      metadata: noted,
      expires_in: expiry,
      [FACE_KEYS]: several = [],
      [FACES]: mapped,
      ...rest
    } = result.data as Record<string, unknown>;
    const fields = rest as Record<string, string | undefined>;
    const pick = (names: [string, string][]) =>
      Object.fromEntries(
        names.flatMap(([name, field]) => {
          const value = fields[field];
          return value === undefined ? [] : [[name, value]];
        }),
      );
    const inputs = {
      ...pick(roles.map(([role, { field }]) => [role, field])),
      ...Object.fromEntries((several as string[]).map((key, i) => [faceRole(i), key])),
    };
    const named = NAMED_PEOPLE[capability];
    const person = named && fields[named.field];
    const mapping = person
      ? { inputs: {}, parameters: mappingText({ people: [{ id: person, input: named.input }] }) }
      : mappingOf((mapped ?? []) as GivenFace[], inputs);
    return {
      inputs: { ...inputs, ...mapping.inputs },
      parameters: {
        ...pick(Object.keys(parameters).map((name) => [ENGINE_NAMES[name] ?? name, name])),
        ...mapping.parameters,
      },
      engineOptions: given as Record<string, string>,
      callbackUrl: fields.callback_url,
      metadata: noted === undefined ? undefined : { entries: noted as Record<string, string> },
      expiresInSeconds: expiry === undefined ? undefined : BigInt(expiry as number),
    };
  };
}

interface GivenFace {
  readonly face_id: string;
  readonly face_key: string;
}

/**
 * Returns what a mapping adds to a submit. Every job has the input `face`; where the caller gave none, it is the first
 * of the mapping, and nobody else gets it.
 */
function mappingOf(
  given: readonly GivenFace[],
  inputs: Readonly<Record<string, string>>,
): Pick<ParsedSubmit, 'inputs' | 'parameters'> {
  const [first] = given;
  if (!first) return { inputs: {}, parameters: {} };
  const people = given.map(({ face_id: id }, i) => ({ id, input: mappedRole(i) }));
  const mapping = inputs.face === undefined ? { people } : { people, others: 'face' };
  return {
    inputs: {
      ...(inputs.face === undefined && { face: first.face_key }),
      ...Object.fromEntries(given.map(({ face_key: key }, i) => [mappedRole(i), key])),
    },
    parameters: mappingText(mapping),
  };
}

const mappingText = (mapping: object) => ({ [FACES_PARAMETER]: JSON.stringify(mapping) });
