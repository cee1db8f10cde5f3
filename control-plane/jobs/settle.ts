import { describeError } from '@semblance/common/errors';
import { inFields } from '@semblance/common/findings';
import type { Logger } from '@semblance/common/logging';
import { isObjectKey } from '@semblance/common/object-key';
import { PREVIEW_TYPE, previewKey } from '@semblance/common/output-preview';
import type { RenderJob, RenderJobStatus } from '@semblance/crds/gen/renderjobs';
import type { ObjectStore } from '@semblance/objects/store';
import { createBatcher } from '../storage/batcher.ts';
import type { Database } from '../storage/database.ts';
import { sqlState } from '../storage/sql.ts';
import { historyOf, type JobHistory, storable, tellable } from './history.ts';
import { slotTimeOf } from './slot-time.ts';

/** `settled` by this call; `already` before it; `fenced`: the outcome belongs to another RenderJob. */
export type Settlement = 'settled' | 'already' | 'fenced' | 'unknown';

type ReportedOutput = NonNullable<RenderJobStatus['output']>;
type ReportedFindings = NonNullable<RenderJobStatus['findings']>;
type Capability = RenderJob['spec']['capability'];

export interface Failure {
  readonly code: string;
  readonly message: string;
  readonly reason: 'render_failed' | 'timed_out' | 'cancelled';
}

export const CANCELLED: Failure = {
  code: 'processing_failed',
  message: 'The job was cancelled.',
  reason: 'cancelled',
};

const UNUSABLE: Failure = {
  code: 'processing_failed',
  message: 'The render did not complete.',
  reason: 'render_failed',
};

export interface SettledFacts {
  readonly jobId: string;
  readonly status: string;
  readonly eventTask: bigint;
  readonly holdMicros: bigint;
  readonly chargedMicros: bigint;
  readonly shortfallMicros: bigint;
  readonly reason: Failure['reason'] | undefined;
  readonly capability: string | undefined;
}

export interface SettlerOptions {
  readonly database: Database;
  readonly objects: ObjectStore;
  readonly logger: Logger;
  /** Called after each commit that settled a job. */
  readonly onSettled: (facts: SettledFacts) => void;
  /** Time of the booking. Default: the database's clock. */
  readonly now?: () => Date;
  /** Returns the slots that a RenderJob's attempt takes. Default: 1. */
  readonly slotsOf?: (renderJob: RenderJob) => number;
}

interface Output {
  readonly key: string;
  readonly content_type: string;
  readonly size_bytes: number;
  readonly sha256: string | null;
  readonly engine: string | null;
  readonly unit: string;
  readonly milli_units: number;
  /** Size of a video's frames in pixels; null when it was not measured. */
  readonly width: number | null;
  readonly height: number | null;
}

/** A small picture that the agent stored beside the output. */
interface StoredPreview {
  readonly key: string;
  readonly sizeBytes: number;
}

/** What a RenderJob says beside its outcome, and what was found in the object store. */
interface Known {
  readonly preview?: StoredPreview | undefined;
  readonly capability?: Capability;
  readonly findings?: ReportedFindings | undefined;
  /** Slot time of its last attempt, in ms. */
  readonly slotMs?: number | undefined;
  readonly history?: JobHistory | undefined;
}

/** Parameter of `settle_jobs` for each job. */
interface Request {
  readonly job: string;
  readonly uid: string | null;
  readonly output: Output | null;
  readonly error_code: string | null;
  readonly error_message: string | null;
  readonly reason: Failure['reason'] | null;
  readonly findings: ReportedFindings | null;
  /** Slot time of the last attempt. */
  readonly slot_ms: number | null;
  /** Beside the parameter: the small picture of the output, and the course of the job. */
  readonly preview: StoredPreview | null;
  readonly history: JobHistory | null;
  /** ISO 8601. */
  readonly at: string | null;
}

type Row = {
  outcome: Settlement | 'unbillable';
  status: string | null;
  charged_micros: bigint | null;
  hold_micros: bigint | null;
  shortfall_micros: bigint | null;
  event_task: bigint | null;
  /** As recorded: a cancelled job is `cancelled` whatever outcome was brought. */
  reason: Failure['reason'] | null;
};

/**
 * Ends jobs: the money, the record and the debt of the event in one transaction, once, however often it is called.
 */
export function createSettler({ database, objects, logger, onSettled, now, slotsOf }: SettlerOptions) {
  // Jobs that end at the same time share a transaction.
  const batcher = createBatcher<Request, Row>({
    deadlineMs: database.deadlineMs,
    concurrency: 2,
    maxSize: 32,
    divisible: (error) => sqlState(error) !== undefined,
    run: (batch) => {
      const jobs = batch.map(({ job }) => job);
      const requests = batch.map(({ preview: _, history: __, ...request }) => request);
      const previews = batch.map(({ preview }) => preview);
      const histories = batch.map(({ history }) => history && JSON.stringify(history));
      return database.sql<Row[]>`
        with settled as materialized (
          select s.place, (s.result).*, (${jobs}::text[])[s.place] as job
          from settle_jobs(${database.sql.json(requests)}::jsonb) s
        ), kept_previews as (
          insert into output_previews (job_id, object_key, size_bytes)
          select s.job, p.key, p.size_bytes
          from settled s
          join unnest(${previews.map((preview) => preview?.key ?? null)}::text[],
                      ${previews.map((preview) => preview?.sizeBytes ?? null)}::bigint[])
            with ordinality as p(key, size_bytes, place) using (place)
          where s.outcome = 'settled' and s.status = 'succeeded' and p.key is not null
        ), kept_histories as (
          insert into job_histories (job_id, history)
          select s.job, h.history from settled s
            join unnest(${histories}::jsonb[]) with ordinality as h(history, place) using (place)
          where s.outcome = 'settled' and h.history is not null
        )
        select s.*, (select j.hold_micros from jobs j where j.id = s.job) as hold_micros from settled s order by s.place`;
    },
  });

  async function settle(
    jobId: string,
    uid: string | undefined,
    outcome: { output: Output } | { failure: Failure },
    { capability, findings, preview, slotMs, history }: Known = {},
  ): Promise<Row['outcome']> {
    const output = 'output' in outcome ? outcome.output : undefined;
    const failure = 'failure' in outcome ? outcome.failure : undefined;
    const row = await batcher.submit({
      job: jobId,
      uid: uid ?? null,
      output: output ?? null,
      error_code: failure?.code ?? null,
      error_message: failure ? storable(failure.message) : null,
      reason: failure?.reason ?? null,
      findings: findings && capability ? storedFindings(findings, capability) : null,
      slot_ms: slotMs ?? null,
      preview: preview ?? null,
      history: history ?? null,
      at: now?.().toISOString() ?? null,
    });
    if (row.outcome === 'settled' && row.event_task !== null && row.status !== null) {
      const shortfallMicros = row.shortfall_micros ?? 0n;
      if (shortfallMicros > 0n)
        logger.warn(
          { jobId, shortfallMicros: shortfallMicros.toString() },
          'the hold did not cover the charge',
        );
      onSettled({
        jobId,
        status: row.status,
        eventTask: row.event_task,
        holdMicros: row.hold_micros ?? 0n,
        chargedMicros: row.charged_micros ?? 0n,
        shortfallMicros,
        reason: row.reason ?? undefined,
        capability,
      });
    }
    return row.outcome;
  }

  async function fail(jobId: string, uid: string | undefined, failure: Failure, known?: Known) {
    const outcome = await settle(jobId, uid, { failure }, known);
    if (outcome === 'unbillable') throw new Error('a failure cannot be unbillable');
    return outcome;
  }

  /** Returns why the output cannot be the job's result; undefined when it can. */
  async function faultOf({ key, sizeBytes, milliUnits }: ReportedOutput): Promise<string | undefined> {
    if (!isObjectKey(key)) return 'no object can have the key of its output';
    if (!Number.isSafeInteger(milliUnits)) return 'its measure is no number of thousandths';
    try {
      const stored = await objects.info(key);
      return stored.sizeBytes === sizeBytes
        ? undefined
        : `its output has ${stored.sizeBytes} bytes in the object store, ${sizeBytes} were reported`;
    } catch (error) {
      // A missing or damaged object stays so; any other error may pass.
      if ((error as { retryable?: unknown }).retryable === false)
        return `its output cannot be had: ${describeError(error)}`;
      throw error;
    }
  }

  /** Returns the preview that lies beside an output; undefined when the agent could make none. */
  async function previewOf({ key }: ReportedOutput): Promise<StoredPreview | undefined> {
    const own = previewKey(key);
    if (!isObjectKey(own)) return undefined;
    try {
      const { sizeBytes, contentType } = await objects.info(own);
      return sizeBytes > 0 && contentType === PREVIEW_TYPE ? { key: own, sizeBytes } : undefined;
    } catch (error) {
      // Without one that can be had, the result is a result.
      if ((error as { retryable?: unknown }).retryable === false) return undefined;
      throw error;
    }
  }

  return {
    /** Fails a job whose outcome no RenderJob can bring any more. */
    fail,

    /** Ends the job of a RenderJob that was deleted before it finished, and on which no agent works. */
    failWithdrawn(renderJob: RenderJob): Promise<Settlement> {
      const { name = '', uid } = renderJob.metadata;
      const slotMs = slotTimeOf(renderJob, slotsOf?.(renderJob));
      const { capability } = renderJob.spec;
      return fail(name, uid, CANCELLED, { capability, slotMs, history: historyOf(renderJob) });
    },

    /**
     * Settles by the content of a finished RenderJob. A success without a usable output, or with one that cannot be
     * billed, is a failure: the hold is released.
     * @throws errors of the object store or the database: try again
     */
    async settleFrom(renderJob: RenderJob): Promise<Settlement> {
      const { name = '', uid } = renderJob.metadata;
      const { capability } = renderJob.spec;
      const { status } = renderJob;
      const known = {
        capability,
        history: historyOf(renderJob),
        slotMs: slotTimeOf(renderJob, slotsOf?.(renderJob)),
      };
      if (status?.phase !== 'Succeeded')
        return fail(name, uid, failureOf(renderJob), { ...known, findings: status?.findings });
      const { output } = status;
      const [found, preview] = output ? await Promise.all([faultOf(output), previewOf(output)]) : [undefined];
      let fault = output ? found : 'it names no output';
      if (output && fault === undefined) {
        const { findings } = output;
        const outcome = await settle(
          name,
          uid,
          { output: asStored(output) },
          { ...known, findings, preview },
        );
        if (outcome !== 'unbillable') return outcome;
        fault = `its output is measured as ${output.milliUnits} thousandths of "${output.unit}"`;
      }
      logger.error({ jobId: name, fault }, 'failing a job although its RenderJob succeeded');
      return fail(name, uid, UNUSABLE, {
        capability,
        history: { ...known.history, message: fault === undefined ? null : tellable(fault) },
      });
    },
  };
}

function asStored(output: ReportedOutput): Output {
  return {
    key: output.key,
    content_type: storable(output.contentType),
    size_bytes: output.sizeBytes,
    sha256: output.sha256 === undefined ? null : storable(output.sha256),
    engine: output.engine === undefined ? null : storable(output.engine),
    unit: storable(output.unit),
    milli_units: output.milliUnits,
    width: output.width ?? null,
    height: output.height ?? null,
  };
}

/** Returns findings as the record of the job keeps them. */
function storedFindings(said: ReportedFindings, capability: Capability): ReportedFindings {
  const all = { ...said, models: said.models ?? [], options: said.options ?? {}, mapped: said.mapped ?? [] };
  const { hints, models, options, mapped, ...rest } = inFields(all, capability);
  const given = Object.entries(options).map(([name, value]) => [name, storable(value)] as const);
  return {
    ...rest,
    hints: hints.map((hint) => ({ ...hint, message: storable(hint.message) })),
    ...(models.length > 0 && {
      models: models.map(({ name, sha256, licence }) => ({
        name: storable(name),
        sha256,
        licence: storable(licence),
      })),
    }),
    ...(given.length > 0 && { options: Object.fromEntries(given) }),
    ...(mapped.length > 0 && { mapped: mapped.map(({ id, ...one }) => ({ ...one, id: storable(id) })) }),
  };
}

export type Settler = ReturnType<typeof createSettler>;

const JOB_ERRORS = new Set([
  'face_not_detected',
  'unsupported_format',
  'input_too_large',
  'content_rejected',
  'processing_failed',
]);

/** Returns the failure of a RenderJob in the terms of the job's owner. */
export function failureOf({ status }: RenderJob): Failure {
  const code = status?.failure?.code;
  const message = status?.failure?.message.trim();
  const reasons = status?.conditions?.map((condition) => condition.reason) ?? [];
  const timedOut = reasons.some((reason) => /deadline/i.test(reason));
  return {
    code: code !== undefined && JOB_ERRORS.has(code) ? code : 'processing_failed',
    message: message || (timedOut ? 'The job took too long.' : 'The render did not complete.'),
    reason: timedOut ? 'timed_out' : 'render_failed',
  };
}
