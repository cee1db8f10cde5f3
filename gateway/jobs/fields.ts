import { isObjectKey } from '@semblance/common/object-key';
import { callbackUrlFault, MAX_CALLBACK_URL_LENGTH } from '@semblance/common/submit-rules';
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
    .meta({ minLength: min, maxLength: max });
}

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

/** Address to which the terminal job is POSTed. */
export const callbackUrl = z
  .string('must be a string')
  .refine((value) => callbackUrlFault(value) === undefined, {
    error: (issue) => callbackUrlFault(String(issue.input)),
  })
  .meta({
    description:
      'Where the terminal job is POSTed: an absolute http or https URL without credentials, whose host has a public address.',
    format: 'uri',
    maxLength: MAX_CALLBACK_URL_LENGTH,
  });

export const outputResolution = z
  .literal([480, 720, 1080], 'must be 480, 720 or 1080')
  .transform((value) => String(value));

/** An optional field; null counts as absent, because many clients write it so. */
export function optional<T extends z.ZodType>(schema: T) {
  return schema.nullish().transform((value) => value ?? undefined);
}
