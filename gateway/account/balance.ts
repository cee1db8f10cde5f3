import { microsToUsd } from '@semblance/common/money';
import { z } from 'zod';
import { requireCaller } from '../auth/bearer.ts';
import type { ControlPlane } from '../control/control-plane.ts';
import type { Handler } from '../http/context.ts';
import type { Operation } from '../openapi/operation.ts';
import { signedUsd, usd } from '../openapi/parts.ts';

/** Handles GET /balance. */
export function readBalance({ control }: { readonly control: ControlPlane }): Handler {
  return async (ctx) => {
    const caller = requireCaller(ctx);
    const balance = await control.getBalance(ctx, { caller });
    ctx.set('Cache-Control', 'no-store');
    ctx.body = {
      balance_usd: microsToUsd(balance.balanceMicros),
      total_spent_usd: microsToUsd(balance.totalSpentMicros),
      total_topped_up_usd: microsToUsd(balance.totalToppedUpMicros),
      spent_this_week_usd: microsToUsd(balance.spentThisWeekMicros),
      spent_this_month_usd: microsToUsd(balance.spentThisMonthMicros),
      spent_this_year_usd: microsToUsd(balance.spentThisYearMicros),
      held_usd: microsToUsd(balance.heldMicros),
      reserved_usd: microsToUsd(balance.reservedMicros),
      available_usd: microsToUsd(balance.availableMicros),
    };
  };
}

const balanceSchema = z
  .object({
    balance_usd: signedUsd('Top-ups less charges and `held_usd`.'),
    total_spent_usd: usd('All charges there ever were.'),
    total_topped_up_usd: usd('All top-ups there ever were.'),
    spent_this_week_usd: usd('Charges since Monday 00:00 UTC.'),
    spent_this_month_usd: usd('Charges since the first of the month, UTC.'),
    spent_this_year_usd: usd('Charges since the first of January, UTC.'),
    held_usd: usd('Holds of jobs that have not ended.'),
    reserved_usd: usd('Blocks of live sessions that have not ended.'),
    available_usd: signedUsd(
      'What a submit or a session may use now: `balance_usd` less `reserved_usd`. A refusal for money names it. Below zero when charges were more than their holds.',
    ),
  })
  .meta({ id: 'Balance' });

export const readBalanceOperation: Operation = {
  id: 'getBalance',
  tag: 'Account',
  summary: 'Read the prepaid balance and spend',
  description: 'All numbers are of one moment.',
  key: 'required',
  answers: [
    {
      status: 200,
      description: 'The balance.',
      schema: balanceSchema,
      example: {
        balance_usd: 42.5,
        total_spent_usd: 7.5,
        total_topped_up_usd: 50,
        spent_this_week_usd: 0.4,
        spent_this_month_usd: 2.12,
        spent_this_year_usd: 7.5,
        held_usd: 0.06,
        reserved_usd: 6,
        available_usd: 36.5,
      },
    },
  ],
};
