import { microsToUsd } from '@semblance/common/money';
import { z } from 'zod';
import { requireCaller } from '../auth/bearer.ts';
import { checked } from '../auth/checked.ts';
import type { ControlPlane } from '../control/control-plane.ts';
import type { Handler } from '../http/context.ts';
import { queryOf } from '../http/query.ts';
import type { Operation } from '../openapi/operation.ts';
import { usd } from '../openapi/parts.ts';
import { limitUpTo, parseQuery } from './query.ts';

const MOST_DAYS = 366;

const daysQuery = z.object({
  days: limitUpTo(MOST_DAYS, 30).meta({
    description: `Number of days up to today, from 1 to ${MOST_DAYS}; 30 when left out.`,
    default: 30,
    type: 'integer',
    minimum: 1,
    maximum: MOST_DAYS,
  }),
});

/** Handles GET /usage/days. */
export function listSpendDays({ control }: { readonly control: ControlPlane }): Handler {
  return async (ctx) => {
    const caller = requireCaller(ctx);
    const { days } = await checked(ctx, control, () => parseQuery(daysQuery, queryOf(ctx)));
    const answer = await control.listSpendDays(ctx, { caller, days });
    ctx.set('Cache-Control', 'no-store');
    ctx.body = {
      days: answer.days.map(({ day, spentMicros }) => ({ day, spent_usd: microsToUsd(spentMicros) })),
    };
  };
}

export const listSpendDaysOperation: Operation = {
  id: 'listSpendDays',
  tag: 'Account',
  summary: 'Read what was spent by day',
  description:
    'Charges of each of the last days (UTC), as they count in the balance; a refund lessens the day of its charge.',
  key: 'required',
  query: daysQuery,
  answers: [
    {
      status: 200,
      description: 'The days, the oldest first; those without a charge too.',
      schema: z
        .object({
          days: z
            .array(
              z
                .object({
                  day: z.string().meta({ description: 'The day, UTC.', format: 'date' }),
                  spent_usd: usd('What was charged on it.'),
                })
                .meta({ id: 'SpendDay' }),
            )
            .meta({ description: 'The days.' }),
        })
        .meta({ id: 'SpendDays' }),
      example: { days: [{ day: '2026-01-31', spent_usd: 0.4 }] },
    },
  ],
  errors: ['invalid_input'],
};
