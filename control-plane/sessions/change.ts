import { type ServiceError, status } from '@grpc/grpc-js';
import { ApiError, describeError } from '@semblance/common/errors';
import { call, createClient } from '@semblance/common/grpc/client';
import type { Tls } from '@semblance/common/grpc/tls/tls';
import type { Logger } from '@semblance/common/logging';
import type { Voice } from '@semblance/common/voices/voice';
import type { ObjectStore } from '@semblance/objects/store';
import type {
  ChangeSessionRequest,
  ChangeSessionResponse,
} from '@semblance/proto/semblance/control/v1/control';
import {
  type ChangeSessionRequest as AgentRequest,
  type ChangeSessionResponse as AgentResponse,
  LiveServiceClient,
} from '@semblance/proto/semblance/live/v1/live';
import type { Database } from '../storage/database.ts';
import type { CertificateOf } from './connect.ts';
import { detailsOf, inputFault, type SessionDetails } from './order.ts';
import { isSessionId } from './session-id.ts';

/** Time for the agent to fetch a picture, have it checked and prepare it, in ms. */
const AGENT_MS = 20_000;
/** Lifetime of the link to the picture, in seconds. */
const LINK_SECONDS = 60;

/** Where a connected session is carried. */
export interface Carrier {
  readonly capability: string;
  readonly account_id: string;
  readonly agent: string;
  readonly agent_incarnation: string;
  readonly agent_address: string;
}

/** Asks the agent of a session. @throws ServiceError */
export type AskForChange = (
  carrier: Carrier,
  request: AgentRequest,
  signal: AbortSignal,
) => Promise<AgentResponse>;

export interface SessionChangerOptions {
  readonly database: Database;
  /** Voices from files, by id. */
  readonly voices: ReadonlyMap<string, Voice>;
  readonly objects: Pick<ObjectStore, 'signGet'>;
  readonly certificateOf: CertificateOf;
  readonly logger: Logger;
  /** Sent to agents with every call. */
  readonly internalToken?: string | undefined;
  readonly tls?: Tls | undefined;
  /** Default: over gRPC. */
  readonly ask?: AskForChange | undefined;
}

/**
 * Returns what changes the prompt or voice of a connected session. It concerns no money: what is charged is the time that is
 * streamed. Repeating a change has the same effect.
 * @throws ApiError invalid_input; not_found: the session has ended, or has another connection
 */
export function createSessionChanger(options: SessionChangerOptions) {
  const { database, objects, logger } = options;
  const ask = options.ask ?? askOverGrpc(options);

  async function linked({ inputs }: SessionDetails): Promise<AgentRequest['inputs']> {
    const links = inputs.map(async ({ role, key }) => {
      const url = await objects.signGet(key, { expiresInSeconds: LINK_SECONDS, audience: 'internal' });
      return [role, { url, maxBytes: 0n }] as const;
    });
    return Object.fromEntries(await Promise.all(links));
  }

  return async (request: ChangeSessionRequest, signal: AbortSignal): Promise<ChangeSessionResponse> => {
    const capability = request.to?.$case === 'prompt' ? 'full-live-swap' : 'voice';
    const details = await detailsOf({ files: options.voices, sql: database.fast }, capability, {
      prompt: request.to?.$case === 'prompt' ? request.to.value : '',
      voiceId: request.to?.$case === 'voiceId' ? request.to.value : undefined,
    });
    const carrier = await record(database, request, capability, details);
    const { sessionId } = request;
    const settings = { ...details.settings };
    const asked = {
      sessionId,
      incarnation: carrier.agent_incarnation,
      settings,
      inputs: await linked(details),
    };
    try {
      const { outcome } = await ask(carrier, asked, signal);
      if (!outcome) throw new Error('the agent answered with nothing');
      return { outcome };
    } catch (error) {
      signal.throwIfAborted();
      return refusedBy(error as ServiceError, (why) =>
        logger.warn({ sessionId, agent: carrier.agent }, `cannot change a session: ${why}`),
      );
    }
  };
}

export type SessionChanger = ReturnType<typeof createSessionChanger>;

/**
 * Records the inputs of a session from now on, which are not deleted while it is open, and returns who carries it. The
 * rows are locked as by settlements and by removals of uploads.
 */
async function record(
  { sql }: Database,
  { sessionId, connectionId }: ChangeSessionRequest,
  capability: string,
  { inputs }: SessionDetails,
): Promise<Carrier> {
  return sql.begin(async (tx) => {
    const [row] = isSessionId(sessionId)
      ? await tx<Carrier[]>`
          select capability, account_id, agent, agent_incarnation, agent_address from sessions
          where id = ${sessionId} and connection_id = ${connectionId} and state = 'connected' and end_requested_at is null
          for no key update`
      : [];
    if (!row) throw new ApiError('not_found', 'The session has ended.');
    if (row.capability !== capability)
      throw new ApiError('invalid_input', `A session of ${row.capability} has no such setting.`);
    await tx`select 1 from account_balances where account_id = ${row.account_id} for no key update`;
    for (const { role, key, kind } of inputs) {
      const [upload] = await tx<{ kind: string }[]>`
        select kind from uploads
        where file_key = ${key} and account_id = ${row.account_id} and completed_at is not null`;
      if (upload?.kind !== kind) throw inputFault(upload ? 'wrong_kind' : 'unknown_input', role);
    }
    const files = Object.fromEntries(inputs.map(({ role, key }) => [role, key]));
    await tx`update sessions set inputs = ${tx.json(files)} where id = ${sessionId}`;
    return row;
  });
}

function refusedBy(error: ServiceError, warn: (why: string) => void): ChangeSessionResponse {
  switch (error.code) {
    case status.NOT_FOUND:
    case status.FAILED_PRECONDITION:
      throw new ApiError('not_found', 'The session has ended.', { cause: error });
    case status.RESOURCE_EXHAUSTED:
      return refused('rate_limited', 'The change before is still under way.');
    case status.UNIMPLEMENTED:
      return refused('capability_unavailable', 'What converts this session cannot change it.');
    default:
      warn(describeError(error));
      return refused('internal_error', 'The change did not work. Try again.');
  }
}

function refused(code: string, message: string): ChangeSessionResponse {
  return { outcome: { $case: 'refused', value: { code, message } } };
}

function askOverGrpc({ internalToken, tls, certificateOf }: SessionChangerOptions): AskForChange {
  return async (carrier, request, signal) => {
    const certificate = await certificateOf(carrier.agent, carrier.agent_incarnation);
    const secure = tls?.to('agent', certificate);
    const client = createClient(LiveServiceClient, carrier.agent_address, internalToken, secure);
    try {
      return await call(client.changeSession.bind(client), request, { timeoutMs: AGENT_MS, signal });
    } finally {
      client.close();
    }
  };
}
