import { ApiError } from '@semblance/common/errors';
import { usageEntry, usageSummary } from '@semblance/common/usage-record';
import { CAPABILITIES, CAPABILITY_NAMES } from '@semblance/engine-api/capabilities';
import { z } from 'zod';
import { requireCaller } from '../auth/bearer.ts';
import { checked } from '../auth/checked.ts';
import type { ControlPlane } from '../control/control-plane.ts';
import type { Handler } from '../http/context.ts';
import { queryOf } from '../http/query.ts';
import { statusSchema } from '../jobs/job-schema.ts';
import type { Operation } from '../openapi/operation.ts';
import { count, isoTime, usd } from '../openapi/parts.ts';
import { parseQuery, rangeOf, summaryQuery, usageQuery } from './query.ts';

interface Options {
  readonly control: ControlPlane;
}

/** Handles GET /usage. */
export function listUsage({ control }: Options): Handler {
  return async (ctx) => {
    const caller = requireCaller(ctx);
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
    const caller = requireCaller(ctx);
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

const REASONS = ['session_limit_reached', 'no_stream', 'render_failed', 'timed_out', 'cancelled'] as const;

/** Why a call ended as it did. */
export const usageReason = z
  .enum(REASONS)
  .meta({ id: 'UsageReason', description: 'Why a call ended as it did.' });

const entrySchema = z
  .object({
    id: z.string().meta({ description: 'Id of the job or of the live session.' }),
    endpoint: z.enum(CAPABILITY_NAMES).meta({ description: 'Path segment of the capability.' }),
    feature: z.enum(FEATURES).meta({ description: 'Name of the capability.' }),
    status: statusSchema.meta({ description: 'The outcome of the call.' }),
    charged_usd: usd('What the call cost: 0 while it is under way, and of one that failed.'),
    reason: usageReason
      .nullable()
      .meta({ description: 'An explanation, not a failure marker: read `status` for the outcome.' }),
    created_at: isoTime(
      'When the call was made, to the microsecond. No two calls of an account share it: `to` with the last one answers the next page.',
    ),
  })
  .meta({ id: 'UsageEntry' });

const summarySchema = z
  .object({
    total_calls: count('all calls: succeeded + failed + in_flight.'),
    succeeded: count('calls that succeeded.'),
    failed: count('calls that failed.'),
    in_flight: count('calls that are queued or processing.'),
    total_spent_usd: usd('What the calls cost together.'),
    per_feature: z
      .array(
        z
          .object({
            feature: z.enum(FEATURES).meta({ description: 'Name of the capability.' }),
            calls: count('calls of the capability.'),
            spend_usd: usd('What they cost together.'),
          })
          .meta({ id: 'FeatureUsage' }),
      )
      .meta({ description: 'The same by capability; those without a call are absent.' }),
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
