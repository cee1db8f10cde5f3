import { ApiError } from '@semblance/common/errors';
import type { JobState } from '@semblance/proto/semblance/control/v1/control';
import { z } from 'zod';
import { requireCaller } from '../auth/bearer.ts';
import type { ControlPlane } from '../control/control-plane.ts';
import type { GatewayContext, Handler } from '../http/context.ts';
import { EXAMPLE_JOB, isJobIdShaped, jobPath, jobSchema } from '../jobs/job-schema.ts';
import type { Operation } from '../openapi/operation.ts';
import type { EventStream } from './event-stream.ts';
import type { EventStreams } from './event-streams.ts';
import { ENDED } from './job-events.ts';

/**
 * Pause before a reconnect, in ms. It is random, so that the clients of an ending gateway do not all return at the
 * same moment.
 */
const RETRY_MS = { least: 1_000, spread: 2_000 };

export interface ReadEventsOptions {
  readonly control: ControlPlane;
  readonly streams: EventStreams;
}

/** Handles GET /jobs/{job_id}/events: the events of a job, as server-sent events, until it has ended. */
export function readEvents({ control, streams }: ReadEventsOptions): Handler {
  return async (ctx) => {
    const caller = requireCaller(ctx);
    const jobId = ctx.params.job_id as string;
    if (!isJobIdShaped(jobId)) {
      await control.authorize(ctx, { caller });
      throw new ApiError('not_found', 'There is no such job.');
    }
    const seen = streams.ids.parse(jobId, lastEventId(ctx));
    let stream: EventStream | undefined;
    let early: JobState | undefined;
    const watch = await control.watchJob(
      ctx,
      { caller, jobId },
      {
        state(state) {
          if (stream) stream.push(state);
          else early = state;
        },
        gone: () => stream?.end(),
      },
    );
    const { res } = ctx;
    if (res.destroyed) return watch.close();
    setHeaders(ctx);
    if (seen.status === ENDED || ctx.method === 'HEAD') {
      watch.close();
      // 204 tells an EventSource not to come back: it has received everything.
      if (seen.status === ENDED) ctx.status = 204;
      return;
    }
    stream = streams.enter(watch.accountId, res, seen);
    if (!stream) {
      watch.close();
      throw new ApiError('at_capacity', 'Too many event streams are open. Retry when one of them has ended.');
    }
    res.once('close', watch.close);
    // Koa must not answer from here on.
    ctx.respond = false;
    res.statusCode = 200;
    stream.begin(Math.round(RETRY_MS.least + Math.random() * RETRY_MS.spread));
    if (early) stream.push(early);
    early = undefined;
  };
}

function lastEventId({ headers }: GatewayContext): string | undefined {
  const value = headers['last-event-id'];
  return typeof value === 'string' ? value : undefined;
}

function setHeaders(ctx: GatewayContext): void {
  ctx.set('Cache-Control', 'no-store');
  ctx.set('X-Accel-Buffering', 'no');
  ctx.status = 200;
  ctx.type = 'text/event-stream; charset=utf-8';
}

const jobProgressSchema = z
  .object({
    attempt: z
      .int()
      .min(1)
      .meta({ description: 'Number of the attempt: a job whose agent was lost is begun again: 1, 2, …' }),
    progress: z.number().min(0).max(1).meta({ description: 'Share of the work that is done, from 0 to 1.' }),
    eta_seconds: z
      .int()
      .min(0)
      .nullable()
      .meta({ description: 'Estimate of the seconds left; null while there is nothing to go by.' }),
  })
  .meta({ id: 'JobProgress', description: 'Data of a `progress` event.' });

const jobQueueSchema = z
  .object({
    position: z
      .int()
      .min(1)
      .nullable()
      .meta({ description: 'Place among the jobs that wait for the same agents, from 1.' }),
    of: z
      .int()
      .min(1)
      .nullable()
      .meta({ description: 'Number of those jobs when the place was told, this one included.' }),
    reason: z
      .enum(['busy', 'no_agent', 'retrying', 'suspended'])
      .meta({ id: 'QueueReason', description: 'Why a job waits.' })
      .nullable()
      .meta({ description: 'Why it waits.' }),
  })
  .meta({ id: 'JobQueue', description: 'Data of a `queue` event.' });

const lastEventIdHeader = z.string().optional().meta({
  description:
    '`id` of the last event that was received of this job: only what is new since is told. Any other counts as none. Left out: everything is told.',
});

export const readEventsOperation: Operation = {
  id: 'followJob',
  tag: 'Jobs',
  summary: 'Follow a job',
  description:
    'Server-sent events until the job has ended: `status` (data: `Job`), `progress` (data: `JobProgress`) and `queue` (data: `JobQueue`). The present state comes first. The stream ends after the `status` event of a job that succeeded or failed; before that it ends after half an hour, when its key is revoked or when the service restarts: reconnect with `Last-Event-ID`, as an EventSource does by itself.',
  key: 'required',
  path: jobPath,
  headers: z.object({ 'Last-Event-ID': lastEventIdHeader }),
  answers: [
    {
      status: 200,
      description: 'The stream.',
      type: 'text/event-stream',
      // The keyword is for readers: no schema of OpenAPI 3.1 describes the events of a stream.
      schema: z.string().meta({
        description: 'Events, whose data is JSON.',
        contentSchema: {
          oneOf: ['Job', 'JobProgress', 'JobQueue'].map((name) => ({ $ref: `#/components/schemas/${name}` })),
        },
      }),
      headers: ['Cache-Control'],
      example: `retry: 2000\n\nid: 2.0.0..q3Zr8mKx1Wd\nevent: status\ndata: ${JSON.stringify(EXAMPLE_JOB)}\n\nid: 2.1.42..Yf0a7TgLc2E\nevent: progress\ndata: {"attempt":1,"progress":0.42,"eta_seconds":13}\n\n`,
    },
    { status: 204, description: 'By its `Last-Event-ID` the client knows how the job ended.' },
  ],
  errors: ['not_found', 'at_capacity'],
};

/** Schemas of the events' data, for the OpenAPI document. */
export const eventSchemas = [jobSchema, jobProgressSchema, jobQueueSchema];
