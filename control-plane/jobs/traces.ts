import { annotatedTrace, traceAnnotations } from '@semblance/common/tracing/traceparent';
import { inSpan, tracer } from '@semblance/common/tracing/tracing';
import type { RenderJob } from '@semblance/crds/gen/renderjobs';
import type { Sql } from '../storage/sql.ts';
import type { Sender } from '../webhooks/sender.ts';
import type { Settler } from './settle.ts';

/**
 * Returns the trace that began with the job's submit, with its tracestate; undefined if there is none or tracing is
 * off. Never throws.
 */
async function traceOf(sql: Sql, jobId: string): Promise<string | undefined> {
  if (!tracer) return undefined;
  const rows = await sql<{ traceparent: string }[]>`
    select traceparent from job_traces where job_id = ${jobId}`.catch(() => []);
  return rows[0]?.traceparent;
}

/** Creates a RenderJob that continues the job's trace, in a span of its creation. */
export async function createTraced<T>(
  sql: Sql,
  wanted: RenderJob,
  create: (wanted: RenderJob) => Promise<T>,
): Promise<T> {
  if (!tracer) return create(wanted);
  const { metadata } = wanted;
  const parent = await traceOf(sql, metadata.name ?? '');
  return inSpan(
    'create RenderJob',
    { kind: 'producer', parent, attributes: jobAttributes(wanted) },
    (own) => {
      if (own === undefined) return create(wanted);
      const annotations = { ...metadata.annotations, ...traceAnnotations(own) };
      return create({ ...wanted, metadata: { ...metadata, annotations } });
    },
  );
}

/** Returns a settler whose settlements are spans of the RenderJob's trace. */
export function traceSettler(settler: Settler): Settler {
  return {
    ...settler,
    settleFrom(renderJob) {
      if (!tracer) return settler.settleFrom(renderJob);
      const parent = annotatedTrace(renderJob.metadata.annotations);
      const attributes = { ...jobAttributes(renderJob), 'semblance.phase': renderJob.status?.phase ?? '' };
      return inSpan('settle', { kind: 'consumer', parent, attributes }, async (_own, span) => {
        const settlement = await settler.settleFrom(renderJob);
        span?.set({ 'semblance.settlement': settlement });
        return settlement;
      });
    },
  };
}

/** Returns a sender of webhooks whose attempts are spans of the trace that the job's submit began. */
export function traceSender(sender: Sender, sql: Sql): Sender {
  return {
    ...sender,
    async send(url, body, headers) {
      if (!tracer) return sender.send(url, body, headers);
      const jobId = headers['service-delivery']?.replace('dlv-', 'job-') ?? '';
      const parent = await traceOf(sql, jobId);
      // Only the host of the URL: the rest belongs to the receiver and may be a secret.
      const attributes = { 'semblance.job_id': jobId, 'server.address': new URL(url).host };
      return inSpan('webhook', { kind: 'client', parent, attributes }, async (_own, span) => {
        const answer = await sender.send(url, body, headers);
        span?.set({ 'http.response.status_code': answer.status ?? 0, 'error.type': answer.error ?? '' });
        return answer;
      });
    },
  };
}

function jobAttributes({ metadata, spec }: RenderJob) {
  return { 'semblance.job_id': metadata.name ?? '', 'semblance.capability': spec.capability };
}
