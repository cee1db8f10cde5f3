import { type ServiceError, status } from '@grpc/grpc-js';
import { certificateOf } from '@semblance/common/agent-certificate';
import { raceAbort } from '@semblance/common/async/abort';
import { ApiError, describeError, isApiErrorCode } from '@semblance/common/errors';
import { call, createClient } from '@semblance/common/grpc/client';
import type { Tls } from '@semblance/common/grpc/tls/tls';
import { newId } from '@semblance/common/ids';
import type { Reflector } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import { clip } from '@semblance/common/plain-text';
import type { GpuAgent } from '@semblance/crds/gen/gpuagents';
import type { ObjectStore } from '@semblance/objects/store';
import {
  InspectionServiceClient,
  type PreviewRequest,
  type PreviewResponse,
} from '@semblance/proto/semblance/agent/v1/inspection';
import type { Callees } from '../agents/callee.ts';
import type { Sql } from '../storage/sql.ts';
import type { InspectedJob } from './inspector.ts';
import { readyFor } from './ready-agents.ts';
import { createTurns } from './turns.ts';

/** Longest time of a preview with all its waits, in ms. */
const PREVIEW_MS = 25_000;
/** Lifetime of the links to the inputs, in seconds. */
const LINK_SECONDS = 60;
/** Agents asked for one preview. */
const MAX_AGENTS = 3;
/** Most previews of an account that wait for the one under way. */
const MAX_WAITING = 4;
/** Most bytes of a picture. */
const MAX_JPEG = 2 * 1024 * 1024;
const RETRY_SECONDS = 5;

/** A job that was checked as a submit is, and the time of the frame in microseconds. */
export interface PreviewedJob extends InspectedJob {
  readonly atUs: bigint;
}

/** Asks one agent. @throws ServiceError */
export type AskForPreview = (
  address: string,
  request: PreviewRequest,
  signal: AbortSignal,
  agent: GpuAgent,
) => Promise<PreviewResponse>;

export interface FramePreviewerOptions {
  readonly sql: Sql;
  readonly agents: Pick<Reflector<GpuAgent>, 'list'>;
  readonly objects: Pick<ObjectStore, 'signGet'>;
  readonly logger: Logger;
  /** Default: over gRPC. */
  readonly ask?: AskForPreview | undefined;
  /** Sent to agents with every call. */
  readonly internalToken?: string | undefined;
  readonly tls?: Tls | undefined;
  readonly checkAddress?: Callees['checkAddress'] | undefined;
  /** Default {@link PREVIEW_MS}. */
  readonly limitMs?: number | undefined;
}

/**
 * Returns one frame of a swap as JPEG. Each account has one preview under way, and so many in a day.
 * @param caller aborts when nobody waits any more
 * @throws ApiError at_capacity, capability_unavailable, or what the render would fail with; the caller's reason
 */
export type PreviewFrame = (job: PreviewedJob, caller: AbortSignal) => Promise<Uint8Array>;

export function createFramePreviewer(options: FramePreviewerOptions): PreviewFrame {
  const { sql, limitMs = PREVIEW_MS } = options;
  const inTurn = createTurns();
  const waiting = new Map<string, number>();

  async function preview(job: PreviewedJob, signal: AbortSignal): Promise<Uint8Array> {
    const ready = readyFor(options.agents.list(), job.capability).slice(0, MAX_AGENTS);
    if (ready.length === 0) throw busy('No agent is ready for previews.');
    const [row] = await sql<{ taken: boolean }[]>`select take_frame_preview(${job.accountId}) as taken`;
    if (!row?.taken)
      throw new ApiError('at_capacity', 'This account has had its previews of today (UTC).', {
        retryAfterSeconds: 600,
      });
    return askAgents(options, ready, await requestFor(job, options.objects), signal);
  }

  return async (job, caller) => {
    const { accountId } = job;
    const ahead = waiting.get(accountId) ?? 0;
    if (ahead > MAX_WAITING) throw busy('This account has too many previews under way.');
    waiting.set(accountId, ahead + 1);
    const late = AbortSignal.timeout(limitMs);
    const signal = AbortSignal.any([caller, late]);
    try {
      return await inTurn(accountId, signal, () => preview(job, signal));
    } catch (error) {
      caller.throwIfAborted();
      if (late.aborted) throw busy('The preview took too long.');
      throw error;
    } finally {
      const left = (waiting.get(accountId) ?? 1) - 1;
      if (left > 0) waiting.set(accountId, left);
      else waiting.delete(accountId);
    }
  };
}

const busy = (why: string) =>
  new ApiError('at_capacity', `${why} Ask again shortly.`, { retryAfterSeconds: RETRY_SECONDS });

/** Returns the first answer of the agents. @throws ApiError */
async function askAgents(
  options: FramePreviewerOptions,
  ready: readonly GpuAgent[],
  request: PreviewRequest,
  signal: AbortSignal,
): Promise<Uint8Array> {
  const ask = options.ask ?? askOverGrpc(options);
  let unsupported = true;
  for (const agent of ready) {
    const address = agent.status?.address ?? '';
    try {
      const { jpeg, refusal } = await raceAbort(signal, ask(address, request, signal, agent));
      if (refusal)
        throw new ApiError(
          isApiErrorCode(refusal.code) ? refusal.code : 'invalid_input',
          clip(refusal.message, 1_024),
        );
      if (jpeg.length === 0 || jpeg.length > MAX_JPEG)
        throw new Error(`an agent answered a picture of ${jpeg.length} bytes`);
      return jpeg;
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof ApiError) throw error;
      // An agent of an earlier release has no such call, and engines of owners may not answer previews.
      const { code } = error as ServiceError;
      if (code === status.UNIMPLEMENTED) continue;
      unsupported = false;
      if (code !== status.RESOURCE_EXHAUSTED)
        options.logger.warn({ address }, `cannot make a preview: ${describeError(error)}`);
    }
  }
  if (unsupported)
    throw new ApiError('capability_unavailable', 'No engine of this installation makes such previews.');
  throw busy('No agent has room for a preview.');
}

async function requestFor(
  { capability, parameters, inputs, atUs }: PreviewedJob,
  objects: Pick<ObjectStore, 'signGet'>,
): Promise<PreviewRequest> {
  const links = Object.entries(inputs).map(async ([role, key]) => {
    const url = await objects.signGet(key, { expiresInSeconds: LINK_SECONDS, audience: 'internal' });
    return [role, { url, maxBytes: 0n, key }] as const;
  });
  return {
    previewId: newId(''),
    capability,
    parameters: { ...parameters },
    inputs: Object.fromEntries(await Promise.all(links)),
    atUs,
  };
}

function askOverGrpc({ internalToken, tls, checkAddress }: FramePreviewerOptions): AskForPreview {
  return async (address, request, signal, agent) => {
    await checkAddress?.(agent, signal);
    const secure = tls?.to('agent', certificateOf(agent));
    const client = createClient(InspectionServiceClient, address, internalToken, secure);
    try {
      return await call(client.preview.bind(client), request, { timeoutMs: PREVIEW_MS, signal });
    } finally {
      client.close();
    }
  };
}
