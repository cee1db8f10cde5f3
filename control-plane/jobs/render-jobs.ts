import { ApiError, describeError } from '@semblance/common/errors';
import { AGENT_CLEANUP_FINALIZER, SETTLEMENT_FINALIZER } from '@semblance/common/finalizers';
import { textsIn, withDigests } from '@semblance/common/job-texts';
import { isKubeError, type KubeClient } from '@semblance/common/kube/index';
import { RENDERJOB_RESOURCE, type RenderJob, type RenderJobSpec } from '@semblance/crds/gen/renderjobs';
import { withFaces } from '../faces/mapping.ts';
import type { Sql } from '../storage/sql.ts';

/** Label with the account of a RenderJob. */
const ACCOUNT_LABEL = 'semblance.dev/account';

/** Everything that a RenderJob is made from. */
export interface RenderJobOrder {
  readonly jobId: string;
  readonly accountId: string;
  readonly capability: string;
  readonly inputs: Readonly<Record<string, string>>;
  readonly parameters: Readonly<Record<string, string>>;
  readonly engineOptions: Readonly<Record<string, string>>;
}

export interface RenderJobLimits {
  readonly pendingSeconds: number;
  readonly activeSeconds: number;
  readonly ttlSeconds: number;
}

/** What was decided of the form of a RenderJob. */
interface RenderJobForm {
  /** Texts are named by digest alone, because the leading operator asks for them. */
  readonly digests: boolean;
}

/** The Kubernetes API will never accept this RenderJob, so the job fails. */
export class RenderJobRefusedError extends Error {
  override readonly name = 'RenderJobRefusedError';
  readonly code = 'renderjob_refused';
  readonly retryable = false;
}

export function renderJobFor(
  order: RenderJobOrder,
  limits: RenderJobLimits,
  namespace: string,
  { digests }: RenderJobForm,
): RenderJob {
  const parameters = digests ? withDigests(order.jobId, order.parameters) : { ...order.parameters };
  const engineOptions = { ...order.engineOptions };
  return {
    apiVersion: 'semblance.dev/v1alpha1',
    kind: 'RenderJob',
    metadata: {
      name: order.jobId,
      namespace,
      labels: { [ACCOUNT_LABEL]: order.accountId },
      // The RenderJob stays until its job has been settled by its content, whoever deletes it. The operator's
      // finalizer is there from the beginning, so that binding is one write.
      finalizers: [SETTLEMENT_FINALIZER, AGENT_CLEANUP_FINALIZER],
    },
    spec: {
      capability: order.capability as RenderJobSpec['capability'],
      inputs: Object.entries(order.inputs).map(([name, key]) => ({ name, key })),
      ...(Object.keys(parameters).length > 0 ? { parameters } : {}),
      ...(Object.keys(engineOptions).length > 0 ? { engineOptions } : {}),
      account: order.accountId,
      pendingDeadlineSeconds: limits.pendingSeconds,
      activeDeadlineSeconds: limits.activeSeconds,
      ttlSecondsAfterFinished: limits.ttlSeconds,
    },
  };
}

/**
 * Creates a job's RenderJob, or finds the existing one: its name is the job's id, so creating it twice makes one.
 * @returns its uid
 * @throws RenderJobRefusedError for a permanent refusal; a KubeError when another try may succeed
 */
export async function ensureRenderJob(client: KubeClient, wanted: RenderJob): Promise<string | undefined> {
  try {
    return (await client.createForMetadata(RENDERJOB_RESOURCE, wanted)).metadata.uid;
  } catch (error) {
    if (isKubeError(error, 'invalid'))
      throw new RenderJobRefusedError(`the Kubernetes API refuses it: ${describeError(error)}`, {
        cause: error,
      });
    if (!isKubeError(error, 'already_exists')) throw error;
  }
  const { name = '', namespace } = wanted.metadata;
  const found = await client.get(RENDERJOB_RESOURCE, { name, namespace });
  if (!isSameOrder(found, wanted)) throw new RenderJobRefusedError(`another RenderJob has the name ${name}`);
  return found.metadata.uid;
}

function isSameOrder(found: RenderJob, wanted: RenderJob): boolean {
  const inputs = (job: RenderJob) =>
    job.spec.inputs
      .map(({ name, key }) => `${name}=${key}`)
      .sort()
      .join();
  return (
    found.spec.account === wanted.spec.account &&
    found.spec.capability === wanted.spec.capability &&
    inputs(found) === inputs(wanted)
  );
}

/** Reads the order of a job; undefined when there is none, or the job has ended or been cancelled. */
export async function readOrder(sql: Sql, jobId: string): Promise<RenderJobOrder | undefined> {
  const [row] = await sql<
    {
      account_id: string;
      capability: string;
      inputs: Record<string, string>;
      parameters: Record<string, string>;
      engine_options: Record<string, string> | null;
    }[]
  >`select account_id, capability, inputs, parameters, engine_options from jobs
    where id = ${jobId} and settled_at is null and cancel_requested_at is null`;
  return (
    row && {
      jobId,
      accountId: row.account_id,
      capability: row.capability,
      inputs: row.inputs,
      parameters: row.parameters,
      engineOptions: row.engine_options ?? {},
    }
  );
}

/** @throws ApiError not_found */
export async function readJobTexts(sql: Sql, jobId: string): Promise<Record<string, string>> {
  const [row] = await sql<
    { capability: string; inputs: Record<string, string>; parameters: Record<string, string> }[]
  >`select capability, inputs, parameters from jobs where id = ${jobId}`;
  if (!row) throw new ApiError('not_found', 'There is no such job.');
  return textsIn(await withFaces(sql, row));
}

export async function readRenderJobLimits(sql: Sql): Promise<RenderJobLimits> {
  const [row] = await sql<{ pending: number; active: number; ttl: number }[]>`
    select job_pending_seconds as pending, job_active_seconds as active, renderjob_ttl_seconds as ttl from settings`;
  if (!row) throw new Error('the settings are missing');
  return { pendingSeconds: row.pending, activeSeconds: row.active, ttlSeconds: row.ttl };
}
