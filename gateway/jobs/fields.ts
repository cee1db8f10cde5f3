import { isObjectKey } from '@semblance/common/object-key';
import {
  callbackUrlFault,
  EXPIRES_IN_RULE,
  isExpiresIn,
  MAX_CALLBACK_URL_LENGTH,
  MAX_EXPIRES_IN,
  MAX_METADATA_BYTES,
  MAX_METADATA_ENTRIES,
  MAX_METADATA_VALUE,
  METADATA_NAME,
  metadataFault,
} from '@semblance/common/submit-rules';
import { MAX_FACES } from '@semblance/engine-api/capabilities';
import { MAX_GIVEN_OPTIONS, MAX_OPTION_TEXT, OPTION_NAME } from '@semblance/engine-api/option';
import { MAX_MAPPED } from '@semblance/engine-api/people';
import { z } from 'zod';

/**
 * Text of `min` to `max` Unicode code points, without NUL and lone surrogates, which no database or voice accepts.
 */
export function text(max: number, min = 1) {
  return z
    .string('must be a string')
    .refine((value) => codePoints(value) <= max, `must be at most ${max.toLocaleString('en')} characters`)
    .refine((value) => codePoints(value.trim()) >= min, 'must not be empty')
    .refine((value) => value.isWellFormed() && !value.includes('\0'), 'must be well-formed Unicode text')
    .meta({ ...(min > 0 ? { minLength: min, pattern: NOT_BLANK } : {}), maxLength: max });
}

/** JSON Schema of text that is not blank, and has no NUL in it. */
const NOT_BLANK = '^\\s*[^\\s\\x00][^\\x00]*$';

/** Returns the length in Unicode code points. */
function codePoints(value: string): number {
  let count = 0;
  for (const _ of value) count++;
  return count;
}

/** A key from POST /uploads. The control plane checks its existence and owner. */
export const fileKey = z
  .string('must be a file_key from POST /uploads')
  .refine((value) => value.startsWith('api/'), 'must be a file_key from POST /uploads, beginning with "api/"')
  .refine(isObjectKey, 'must be a file_key exactly as POST /uploads answered it')
  .meta({
    description: 'A file_key, exactly as POST /uploads answered it.',
    pattern: '^api(/[A-Za-z0-9_-][A-Za-z0-9._-]*)+$',
    maxLength: 512,
  });

/** Several pictures of the person whose face is put in. */
export const faceKeys = z
  .array(
    fileKey.meta({
      ...fileKey.meta(),
      description: 'A picture of the person, as POST /uploads answered it.',
    }),
    'must be a list of file_keys from POST /uploads',
  )
  .min(1, 'must name at least one picture')
  .max(MAX_FACES, `must name at most ${MAX_FACES} pictures`)
  .meta({
    description: `In place of \`face_key\`: 1 to ${MAX_FACES} pictures of one person, the first the leading one. Left out: \`face_key\` is needed.`,
  });

/** A person of a file. */
export const faceId = z
  .string('must be a face_id from POST /faces')
  .regex(/^face-[0-9a-f]{26}$/, 'must be a face_id from POST /faces');

/** Faces of people by their ids. */
export const faces = z
  .array(
    z
      .object(
        {
          face_id: faceId.meta({
            description: 'A person of the picture or video of the job, as `POST /faces` told.',
          }),
          face_key: fileKey.meta({
            ...fileKey.meta(),
            description:
              'Picture whose face the person gets: a file_key, exactly as POST /uploads answered it.',
          }),
        },
        'must be an object with face_id and face_key',
      )
      .meta({ id: 'FaceForPerson', description: 'A person, and the picture whose face the person gets.' }),
    'must be a list of objects with face_id and face_key',
  )
  .min(1, 'must name at least one person')
  .max(MAX_MAPPED, `must name at most ${MAX_MAPPED} people`)
  .meta({
    description: `Who gets which face: 1 to ${MAX_MAPPED} people whom \`POST /faces\` found in the picture or video of the job, each once. Everybody else gets that of \`face_key\`, as far as they are suitable, and without one stays as they are. Left out: all suitable people get that of \`face_key\`.`,
  });

/** Address to which the terminal job is POSTed. */
export const callbackUrl = z
  .string('must be a string')
  .refine((value) => callbackUrlFault(value) === undefined, {
    error: (issue) => callbackUrlFault(String(issue.input)),
  })
  .meta({
    description:
      'Where the job is POSTed when it has ended (see `callbacks`): an absolute http or https URL of at most 2,048 characters, without credentials, whose host has a public address. Left out: nobody is called, and the job is polled.',
    pattern: '^https?://[^\\s\\x00/?#@\\\\]+([/?#][^\\s\\x00]*)?$',
    maxLength: MAX_CALLBACK_URL_LENGTH,
  });

export const outputResolution = z
  .literal([480, 720, 1080], 'must be 480, 720 or 1080')
  .meta({ id: 'OutputResolution', description: 'Lines of an output, in pixels of its shorter side.' })
  .transform((value) => String(value));

const optionValue = z
  .union([z.string(), z.number(), z.boolean()], 'must be a string, a number or a boolean')
  .meta({
    id: 'EngineOptionValue',
    description: `Value of an option of the engine; text has at most ${MAX_OPTION_TEXT.toLocaleString('en')} characters.`,
  });

/**
 * Options of the engine, by name. Which there are, and their bounds, the control plane knows. @returns their values as
 * text
 */
export const engineOptions = z
  .record(
    z.string(),
    optionValue
      .transform(String)
      .refine((value) => value.length <= MAX_OPTION_TEXT, `must be at most ${MAX_OPTION_TEXT} characters`)
      .refine((value) => value.isWellFormed() && !value.includes('\0'), 'must be well-formed Unicode text'),
    'must be an object with the values of options by name',
  )
  .refine(
    (given) => Object.keys(given).every((name) => OPTION_NAME.test(name)),
    'has a name that no option has: names are lower case letters, digits and _',
  )
  .refine(
    (given) => Object.keys(given).length <= MAX_GIVEN_OPTIONS,
    `must have at most ${MAX_GIVEN_OPTIONS} options`,
  )
  .meta({
    id: 'EngineOptions',
    description: `Options of the engine by name, as far as the owner of the service lets callers give them; at most ${MAX_GIVEN_OPTIONS}. Any other option, and a value out of bounds, is \`invalid_input\` with a message that says what is valid.`,
    maxProperties: MAX_GIVEN_OPTIONS,
    propertyNames: { pattern: OPTION_NAME.source },
    examples: [{ seed: 7 }],
  });

/** What a caller wants to find in the record of a job again. */
export const metadata = z
  .record(
    z.string(),
    z.string('must have texts as values').meta({ maxLength: MAX_METADATA_VALUE }),
    'must be an object with texts by name',
  )
  .superRefine((given, context) => {
    const fault = metadataFault(given);
    if (fault) context.addIssue(fault);
  })
  .meta({
    description: `Texts by name, which the record of the job shows again and \`GET /jobs\` finds it by: at most ${MAX_METADATA_ENTRIES} entries and ${MAX_METADATA_BYTES.toLocaleString('en')} bytes together. A name has 1 to 40 letters, digits, \`.\`, \`_\` and \`-\`, and begins with a letter or a digit. Left out: none.`,
    propertyNames: { pattern: METADATA_NAME.source },
    maxProperties: MAX_METADATA_ENTRIES,
    example: { order: '4711' },
  });

export const expiresIn = z.number(EXPIRES_IN_RULE).refine(isExpiresIn, EXPIRES_IN_RULE).meta({
  description:
    'Seconds from the end of the job after which its output is deleted, where that is earlier than the owner of the service keeps outputs. More than the owner allows is `invalid_input`. When it is left out, the owner’s time counts.',
  type: 'integer',
  minimum: 1,
  maximum: MAX_EXPIRES_IN,
});

/** An optional field; null counts as absent, because many clients write it so. */
export function optional<T extends z.ZodType>(schema: T) {
  return schema.nullish().transform((value) => value ?? undefined);
}
