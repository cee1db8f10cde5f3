import { microsToUsd } from '#common/money.ts';
import { requireCaller } from '../auth/bearer.ts';
import type { ControlPlane } from '../control/control-plane.ts';
import type { Handler } from '../http/context.ts';

/** GET /balance */
export function readBalance({ control }: { readonly control: ControlPlane }): Handler {
  return async (ctx) => {
    const caller = requireCaller(ctx.headers.authorization);
    const balance = await control.getBalance(ctx, { caller });
    ctx.set('Cache-Control', 'no-store');
    ctx.body = {
      balance_usd: microsToUsd(balance.balanceMicros),
      total_spent_usd: microsToUsd(balance.totalSpentMicros),
      total_topped_up_usd: microsToUsd(balance.totalToppedUpMicros),
      spent_this_week_usd: microsToUsd(balance.spentThisWeekMicros),
      spent_this_month_usd: microsToUsd(balance.spentThisMonthMicros),
      spent_this_year_usd: microsToUsd(balance.spentThisYearMicros),
    };
  };
}
