import { ApiError } from '@semblance/common/errors';
import { call } from '@semblance/common/grpc/client';
import { newId } from '@semblance/common/ids';
import type { Reflector } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import type { Micros } from '@semblance/common/money';
import type { GpuAgent } from '@semblance/crds/gen/gpuagents';
import type { ObjectStore } from '@semblance/objects/store';
import type { PreviewRequest, PreviewResponse } from '@semblance/proto/semblance/agent/v1/inspection';
import { chargePreview, quotePreview } from '../billing/preview-price.ts';
import type { Sql } from '../storage/sql.ts';
import {
  type AgentCalls,
  askAgents,
  busy,
  createAccountTurns,
  type Silence,
  silenceOf,
  withInspectionClient,
} from './ask-agents.ts';
import type { InspectedJob } from './inspector.ts';
import { readyFor } from './ready-agents.ts';

/** Longest time of a preview with all its waits, in ms. */
const PREVIEW_MS = 25_000;
/** Lifetime of the links to the inputs, in seconds. */
const LINK_SECONDS = 60;
/** Most previews of an account that wait for the one under way. */
const MAX_WAITING = 4;
/** Most bytes of a picture. */
const MAX_JPEG = 2 * 1024 * 1024;
/** What an agent says that has not begun a preview, or has ended it for want of room. */
const NOT_BEGUN: ReadonlySet<Silence> = new Set(['busy', 'unsupported']);
const QUESTION = {
  task: 'make a preview',
  noRoom: 'No agent has room for a preview.',
  unsupported: 'No engine of this installation makes such previews.',
};

/** A job that was checked as a submit is, and the time of the frame in microseconds. */
export interface PreviewedJob extends InspectedJob {
  /** Key that pays. */
  readonly keyId?: string | undefined;
  readonly atUs: bigint;
}

/** Asks one agent. @throws ServiceError */
export type AskForPreview = (
  address: string,
  request: PreviewRequest,
  signal: AbortSignal,
  agent: GpuAgent,
) => Promise<PreviewResponse>;

export interface FramePreviewerOptions extends AgentCalls {
  readonly sql: Sql;
  readonly agents: Pick<Reflector<GpuAgent>, 'list'>;
  readonly objects: Pick<ObjectStore, 'signGet'>;
  readonly logger: Logger;
  /** Called with what a delivered preview was charged. */
  readonly onCharged?: ((capability: string, micros: Micros) => void) | undefined;
  /** Default: over gRPC. */
  readonly ask?: AskForPreview | undefined;
  /** Default {@link PREVIEW_MS}. */
  readonly limitMs?: number | undefined;
  /** Longest wait for an agent with room, in ms. Default: some seconds. */
  readonly roomWaitMs?: number | undefined;
}

/**
 * Returns one frame of a swap as JPEG, and charges what the rate card says. Each account has one preview under way, and
 * so many in a day.
 * @param caller aborts when nobody waits any more
 * @throws ApiError insufficient_balance, at_capacity, capability_unavailable, or what the render would fail with; the caller's reason
 */
export type PreviewFrame = (job: PreviewedJob, caller: AbortSignal) => Promise<Uint8Array>;

export function createFramePreviewer(options: FramePreviewerOptions): PreviewFrame {
  const { sql, limitMs = PREVIEW_MS } = options;
  const ask = options.ask ?? askOverGrpc(options);
  const inTurn = createAccountTurns({
    maxWaiting: MAX_WAITING,
    limitMs,
    tooMany: 'This account has too many previews under way.',
    tooLong: 'The preview took too long.',
  });

  /** Returns the frame, and takes one of the day's previews once an agent has begun it. */
  async function rendered(job: PreviewedJob, ready: readonly GpuAgent[], signal: AbortSignal) {
    const [row] = await sql<{ taken: boolean; day: string }[]>`
      select take_frame_preview(${job.accountId}) as taken, today_utc()::text as day`;
    if (!row?.taken)
      throw new ApiError('at_capacity', 'This account has had its previews of today (UTC).', {
        retryAfterSeconds: 600,
      });
    let begun = 0;
    try {
      const request = await requestFor(job, options.objects);
      const answerOf = async (address: string, agent: GpuAgent) => {
        const answer = await ask(address, request, signal, agent);
        if (!answer.refusal && (answer.jpeg.length === 0 || answer.jpeg.length > MAX_JPEG))
          throw new Error(`an agent answered a picture of ${answer.jpeg.length} bytes`);
        return answer;
      };
      return await askAgents(
        ready,
        (address, agent) => {
          // An agent that is asked may be at work, also when nobody waits for it any more.
          begun++;
          return answerOf(address, agent).catch((error) => {
            if (NOT_BEGUN.has(silenceOf(error))) begun--;
            throw error;
          });
        },
        QUESTION,
        { logger: options.logger, signal, roomWaitMs: options.roomWaitMs },
      );
    } finally {
      if (begun === 0)
        await sql`select give_back_frame_preview(${job.accountId}, ${row.day}::date)`.catch((error) =>
          options.logger.warn({ accountId: job.accountId }, `cannot give a preview back: ${error}`),
        );
    }
  }

  async function preview(job: PreviewedJob, signal: AbortSignal): Promise<Uint8Array> {
    const ready = readyFor(options.agents.list(), job.capability);
    if (ready.length === 0) throw busy('No agent is ready for previews.');
    const { accountId, keyId, capability } = job;
    const quote = await quotePreview(sql, { accountId, keyId, capability });
    const { jpeg } = await rendered(job, ready, signal);
    signal.throwIfAborted();
    const charged = await chargePreview(sql, quote, options.logger);
    if (charged > 0n) options.onCharged?.(capability, charged);
    return jpeg;
  }

  return (job, caller) => inTurn(job.accountId, caller, (signal) => preview(job, signal));
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

function askOverGrpc(calls: AgentCalls): AskForPreview {
  return (address, request, signal, agent) =>
    withInspectionClient(calls, { address, agent, signal }, (client) =>
      call(client.preview.bind(client), request, { timeoutMs: PREVIEW_MS, signal }),
    );
}
