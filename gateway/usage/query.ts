import { ApiError } from '@semblance/common/errors';
import { MOMENT_FORM, MOMENT_RULE, parseMoment } from '@semblance/common/moment';
import type { UsageRange } from '@semblance/proto/semblance/control/v1/usage';
import { z } from 'zod';

const once = () => z.string('must be given once');

export const moment = (description: string) =>
  once()
    .transform((text, context) => {
      const micros = parseMoment(text);
      if (micros === undefined)
        // A query decodes an unescaped "+" as a space.
        context.addIssue(text.includes(' ') ? `${MOMENT_RULE}, with "+" written %2B` : MOMENT_RULE);
      return micros;
    })
    .optional()
    .meta({ description, pattern: MOMENT_FORM, examples: ['2026-01-31T09:30:00Z'] });

const range = {
  from: moment(
    'Calls made at this moment or later: an ISO 8601 time with its zone, or a date, which begins at midnight UTC. Left out: from the first call on.',
  ),
  to: moment('Calls made before this moment, not at it, in the same form. Left out: until now.'),
};

export const summaryQuery = z.object(range);

/** How many entries a list answers. */
export const limitUpTo = (most: number, otherwise: number) =>
  once()
    .refine(
      (text) => /^\d{1,3}$/.test(text) && Number(text) >= 1 && Number(text) <= most,
      `must be a whole number from 1 to ${most}`,
    )
    .transform(Number)
    .default(otherwise)
    .meta({
      description: `The most entries to answer, from 1 to ${most}; ${otherwise} when left out.`,
      default: otherwise,
      type: 'integer',
      minimum: 1,
      maximum: most,
    });

export const pageLimit = limitUpTo(500, 100);

export const usageQuery = z.object({
  limit: pageLimit,
  ...range,
});

/**
 * Parses query parameters; unknown ones are ignored.
 * @throws ApiError invalid_input naming every faulty one, without their values
 */
export function parseQuery<T extends z.ZodType>(schema: T, query: unknown): z.output<T> {
  const result = schema.safeParse(query);
  if (result.success) return result.data;
  const faults = new Map(result.error.issues.map((issue) => [issue.path.join('.'), issue.message]));
  throw new ApiError(
    'invalid_input',
    `${[...faults].map(([name, fault]) => `${name} ${fault}`).join('; ')}.`,
  );
}

/** @throws ApiError invalid_input */
export function rangeOf({ from, to }: z.output<typeof summaryQuery>): UsageRange {
  if (from !== undefined && to !== undefined && from > to)
    throw new ApiError('invalid_input', 'from must not be later than to.');
  return { fromMicros: from, toMicros: to };
}
