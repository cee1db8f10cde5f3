import { ApiError } from '@semblance/common/errors';
import { usageEntry, usageSummary } from '@semblance/common/usage-record';
import { CAPABILITIES, CAPABILITY_NAMES } from '@semblance/engine-api/capabilities';
import { JOB_STATUSES } from '@semblance/events/jobs';
import { z } from 'zod';
import { requireCaller } from '../auth/bearer.ts';
import { checked } from '../auth/checked.ts';
import type { ControlPlane } from '../control/control-plane.ts';
import type { Handler } from '../http/context.ts';
import { queryOf } from '../http/query.ts';
import type { Operation } from '../openapi/operation.ts';
import { isoTime, usd } from '../openapi/parts.ts';
import { parseQuery, rangeOf, summaryQuery, usageQuery } from './query.ts';

interface Options {
  readonly control: ControlPlane;
}

/** Handles GET /usage. */
export function listUsage({ control }: Options): Handler {
  return async (ctx) => {
    const caller = requireCaller(ctx.headers.authorization);
    const request = await checked(ctx, control, () => {
      const query = parseQuery(usageQuery, queryOf(ctx));
      return { caller, range: rangeOf(query), limit: query.limit };
    });
    const { entries } = await control.listUsage(ctx, request);
    ctx.set('Cache-Control', 'no-store');
    ctx.body = entries.map(usageEntry);
  };
}

/** Handles GET /usage/summary. */
export function summarizeUsage({ control }: Options): Handler {
  return async (ctx) => {
    const caller = requireCaller(ctx.headers.authorization);
    const request = await checked(ctx, control, () => ({
      caller,
      range: rangeOf(parseQuery(summaryQuery, queryOf(ctx))),
    }));
    const { summary } = await control.summarizeUsage(ctx, request);
    if (!summary) throw new ApiError('internal_error', 'The service failed. Try again.', { upstream: true });
    ctx.set('Cache-Control', 'no-store');
    ctx.body = usageSummary(summary);
  };
}

const FEATURES = CAPABILITY_NAMES.map((name) => CAPABILITIES[name].feature);

export const REASONS = [
  'session_limit_reached',
  'no_stream',
  'render_failed',
  'timed_out',
  'cancelled',
] as const;

const entrySchema = z
  .object({
    id: z.string(),
    endpoint: z.enum(CAPABILITY_NAMES).meta({ description: 'Path segment of the capability.' }),
    feature: z.enum(FEATURES),
    status: z.enum(JOB_STATUSES).meta({ description: 'The outcome of the call.' }),
    charged_usd: usd.meta({ description: '0 while the call is under way, and of one that failed.' }),
    reason: z
      .enum(REASONS)
      .nullable()
      .meta({ description: 'An explanation, not a failure marker: read `status` for the outcome.' }),
    created_at: isoTime.meta({
      description:
        'ISO 8601, UTC, to the microsecond. No two calls of an account share it: `to` with the last one answers the next page.',
    }),
  })
  .meta({ id: 'UsageEntry' });

const count = z.int().min(0);

const summarySchema = z
  .object({
    total_calls: count.meta({ description: 'succeeded + failed + in_flight.' }),
    succeeded: count,
    failed: count,
    in_flight: count.meta({ description: 'Calls that are queued or processing.' }),
    total_spent_usd: usd,
    per_feature: z.array(z.object({ feature: z.enum(FEATURES), calls: count, spend_usd: usd })),
  })
  .meta({ id: 'UsageSummary' });

export const listUsageOperation: Operation = {
  id: 'listUsage',
  tag: 'Account',
  summary: 'List calls, the newest first',
  description: 'Calls made in [from, to). Sum them with the summary: this list is capped.',
  key: 'required',
  query: usageQuery,
  answers: [
    {
      status: 200,
      description: 'The calls.',
      schema: z.array(entrySchema),
      example: [
        {
          id: 'job-01k9x3v7m2q8r5t1w4y6z0abcd',
          endpoint: 'face-swap-image',
          feature: 'photo_swap',
          status: 'succeeded',
          charged_usd: 0.04,
          reason: null,
          created_at: '2026-01-31T09:30:00.123456Z',
        },
      ],
    },
  ],
  errors: ['invalid_input'],
};

export const summarizeUsageOperation: Operation = {
  id: 'getUsageSummary',
  tag: 'Account',
  summary: 'Read usage totals',
  description:
    'Of the calls made in [from, to), by default of all there ever were; all numbers of one moment.',
  key: 'required',
  query: summaryQuery,
  answers: [
    {
      status: 200,
      description: 'The totals.',
      schema: summarySchema,
      example: {
        total_calls: 12,
        succeeded: 10,
        failed: 1,
        in_flight: 1,
        total_spent_usd: 0.4,
        per_feature: [{ feature: 'photo_swap', calls: 12, spend_usd: 0.4 }],
      },
    },
  ],
  errors: ['invalid_input'],
};
