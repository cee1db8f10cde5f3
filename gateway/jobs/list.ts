import { jobRecord } from '@semblance/common/job-record';
import { MAX_METADATA_VALUE, METADATA_NAME } from '@semblance/common/submit-rules';
import { CAPABILITIES, isCapability } from '@semblance/engine-api/capabilities';
import { JOB_STATUSES } from '@semblance/events/jobs';
import type { ListedJob } from '@semblance/proto/semblance/control/v1/control';
import { z } from 'zod';
import { requireCaller } from '../auth/bearer.ts';
import { checked } from '../auth/checked.ts';
import type { ControlPlane } from '../control/control-plane.ts';
import type { Handler } from '../http/context.ts';
import { queryOf } from '../http/query.ts';
import type { Operation } from '../openapi/operation.ts';
import { isoTime } from '../openapi/parts.ts';
import { limitUpTo, moment, parseQuery, rangeOf } from '../usage/query.ts';
import { EXAMPLE_JOB, jobSchema } from './job-schema.ts';
import { JOB_CAPABILITIES } from './submit-schemas.ts';

const once = () => z.string('must be given once');
const oneOf = <T extends string>(values: readonly T[]) =>
  z.enum(values, `must be given once, and be one of ${values.join(', ')}`).optional();

const METADATA = new RegExp(`^${METADATA_NAME.source.slice(1, -1)}:`);

const jobsQuery = z.object({
  status: oneOf(JOB_STATUSES).meta({
    description: 'Jobs that have this status now. Left out: of every status.',
  }),
  capability: oneOf(JOB_CAPABILITIES).meta({ description: 'Jobs of this capability. Left out: of all.' }),
  from: moment(
    'Jobs submitted at this moment or later: an ISO 8601 time with its zone, or a date, which begins at midnight UTC. Left out: from the first one on.',
  ),
  to: moment('Jobs submitted before this moment, not at it. Left out: up to now.'),
  metadata: once()
    .regex(METADATA, 'must be a name of the metadata, a colon and its whole value')
    .transform((text) => {
      const colon = text.indexOf(':');
      return { name: text.slice(0, colon), value: text.slice(colon + 1) };
    })
    .refine(({ value }) => value.isWellFormed() && !value.includes('\0'), 'must be well-formed Unicode text')
    .optional()
    .meta({
      description:
        'Jobs whose submit gave this entry of `metadata`: its name, a colon and its whole value. Left out: jobs with any and with none.',
      pattern: METADATA.source,
      maxLength: 41 + MAX_METADATA_VALUE,
      example: 'order:4711',
    }),
  limit: limitUpTo(200, 50),
  cursor: once()
    .regex(/^[A-Za-z0-9_-]{1,128}$/, 'must be the next_cursor of an earlier answer')
    .optional()
    .meta({
      description: '`next_cursor` of an earlier answer: the jobs after its last one. Left out: the newest.',
    }),
});

/** Handles GET /jobs. */
export function listJobs({ control }: { readonly control: ControlPlane }): Handler {
  return async (ctx) => {
    const caller = requireCaller(ctx);
    const request = await checked(ctx, control, () => {
      const { from, to, ...query } = parseQuery(jobsQuery, queryOf(ctx));
      return { ...query, caller, range: rangeOf({ from, to }) };
    });
    const { jobs, nextCursor } = await control.listJobs(ctx, request);
    ctx.set('Cache-Control', 'no-store');
    ctx.body = { jobs: jobs.flatMap(listedRecord), next_cursor: nextCursor ?? null };
  };
}

function listedRecord({ job, capability, createdAt, endedAt }: ListedJob) {
  if (!job) return [];
  const feature = isCapability(capability) ? CAPABILITIES[capability].feature : capability;
  return [{ ...jobRecord(job), capability, feature, created_at: createdAt, ended_at: endedAt ?? null }];
}

const listedSchema = jobSchema
  .extend({
    capability: z.enum(JOB_CAPABILITIES).meta({ description: 'The capability, as its path segment.' }),
    feature: z
      .enum(JOB_CAPABILITIES.map((name) => CAPABILITIES[name].feature))
      .meta({ description: 'The capability, as usage and rates name it.' }),
    created_at: isoTime('When it was submitted, to the microsecond.'),
    ended_at: isoTime('When it ended; null until then.').nullable(),
  })
  .meta({ id: 'ListedJob' });

const pageSchema = z
  .object({
    jobs: z.array(listedSchema).meta({ description: 'The newest first.' }),
    next_cursor: z
      .string()
      .nullable()
      .meta({ description: 'For the next page, with the same filters. Null: there are no more.' }),
  })
  .meta({ id: 'JobPage' });

export const listJobsOperation: Operation = {
  id: 'listJobs',
  tag: 'Jobs',
  summary: 'List jobs, the newest first',
  description:
    'The jobs of the account that fit all the filters, each with the record that `GET /jobs/{job_id}` answers and four more fields. With `cursor` no job is missed or repeated, whatever is submitted meanwhile.',
  key: 'required',
  query: jobsQuery,
  answers: [
    {
      status: 200,
      description: 'A page of jobs.',
      schema: pageSchema,
      example: {
        jobs: [
          {
            ...EXAMPLE_JOB,
            metadata: { order: '4711' },
            capability: 'face-swap-image',
            feature: 'photo_swap',
            created_at: '2026-01-31T09:30:00.123456Z',
            ended_at: null,
          },
        ],
        next_cursor: null,
      },
    },
  ],
  errors: ['invalid_input'],
};
