import { setTimeout as delay } from 'node:timers/promises';
import { type ServiceError, status } from '@grpc/grpc-js';
import { certificateOf } from '@semblance/common/agent-certificate';
import { raceAbort } from '@semblance/common/async/abort';
import { ApiError, describeError, isApiErrorCode } from '@semblance/common/errors';
import { createClient } from '@semblance/common/grpc/client';
import type { Tls } from '@semblance/common/grpc/tls/tls';
import type { Logger } from '@semblance/common/logging';
import { clip } from '@semblance/common/plain-text';
import type { GpuAgent } from '@semblance/crds/gen/gpuagents';
import type { AttemptFailure } from '@semblance/proto/semblance/agent/v1/agent';
import { InspectionServiceClient } from '@semblance/proto/semblance/agent/v1/inspection';
import type { Callees } from '../agents/callee.ts';
import { createTurns } from './turns.ts';

/** Agents asked for one answer. */
const MAX_AGENTS = 3;
const RETRY_SECONDS = 5;
/** Longest wait for an agent with room, in ms. */
const ROOM_WAIT_MS = 10_000;
/** Time between two rounds of questions, in ms. */
const ROOM_POLL_MS = 500;

/** Returns the error of a caller who should ask again in some seconds. */
export const busy = (why: string) =>
  new ApiError('at_capacity', `${why} Ask again shortly.`, { retryAfterSeconds: RETRY_SECONDS });

/** What a question is called in logs and errors. */
export interface Question {
  /** After "cannot", as in "make a preview". */
  readonly task: string;
  /** The error where no agent has room. */
  readonly noRoom: string;
  /** The error where no agent knows the call. */
  readonly unsupported: string;
}

/** Why an agent has not answered. */
export type Silence = 'busy' | 'failed' | 'timed_out' | 'unsupported';

export interface AskLimits {
  readonly logger: Logger;
  readonly signal: AbortSignal;
  /** Default {@link ROOM_WAIT_MS}. */
  readonly roomWaitMs?: number | undefined;
}

/** Returns why an agent has not answered. */
export function silenceOf(error: unknown): Silence {
  const { code } = error as ServiceError;
  if (code === status.RESOURCE_EXHAUSTED) return 'busy';
  // An agent of an earlier release has no such call, and engines of owners may not answer it.
  if (code === status.UNIMPLEMENTED) return 'unsupported';
  return code === status.DEADLINE_EXCEEDED ? 'timed_out' : 'failed';
}

/**
 * Asks the agents one after another for an answer. While renders take all room, they are asked again for some seconds.
 * @param ready at least one agent
 * @returns the first answer, or why there is none
 * @throws the signal's reason
 */
export async function firstAnswer<Answer>(
  ready: readonly GpuAgent[],
  ask: (address: string, agent: GpuAgent) => Promise<Answer>,
  task: string,
  { logger, signal, roomWaitMs = ROOM_WAIT_MS }: AskLimits,
): Promise<{ readonly answer: Answer } | { readonly silences: ReadonlySet<Silence> }> {
  const giveUpAt = performance.now() + roomWaitMs;
  const silences = new Set<Silence>();
  for (let agents: readonly GpuAgent[] = ready.slice(0, MAX_AGENTS); ; ) {
    const full: GpuAgent[] = [];
    for (const agent of agents) {
      const address = agent.status?.address ?? '';
      try {
        return { answer: await raceAbort(signal, ask(address, agent)) };
      } catch (error) {
        signal.throwIfAborted();
        const silence = silenceOf(error);
        silences.add(silence);
        if (silence === 'busy') full.push(agent);
        else if (silence !== 'unsupported')
          logger.warn({ address }, `cannot ${task}: ${describeError(error)}`);
      }
    }
    if (full.length === 0 || performance.now() >= giveUpAt) return { silences };
    await raceAbort(signal, delay(ROOM_POLL_MS));
    agents = full;
  }
}

/**
 * Asks the agents, and returns the first answer. A refusal is about the input, so it ends the search.
 * @param ready at least one agent
 * @throws ApiError what an agent refused; capability_unavailable; at_capacity; the signal's reason
 */
export async function askAgents<Answer extends { readonly refusal?: AttemptFailure | undefined }>(
  ready: readonly GpuAgent[],
  ask: (address: string, agent: GpuAgent) => Promise<Answer>,
  { task, noRoom, unsupported }: Question,
  limits: AskLimits,
): Promise<Answer> {
  const found = await firstAnswer(ready, ask, task, limits);
  if ('silences' in found) {
    const known = [...found.silences].some((silence) => silence !== 'unsupported');
    throw known ? busy(noRoom) : new ApiError('capability_unavailable', unsupported);
  }
  const { refusal } = found.answer;
  if (refusal) throw refused(refusal);
  return found.answer;
}

function refused({ code, message }: AttemptFailure): ApiError {
  return new ApiError(isApiErrorCode(code) ? code : 'invalid_input', clip(message, 1_024));
}

export interface AgentCalls {
  /** Sent to agents with every call. */
  readonly internalToken?: string | undefined;
  readonly tls?: Tls | undefined;
  readonly checkAddress?: Callees['checkAddress'] | undefined;
}

/** Calls an agent's inspection service with a client of its own. @throws ServiceError */
export async function withInspectionClient<Answer>(
  { internalToken, tls, checkAddress }: AgentCalls,
  {
    address,
    agent,
    signal,
  }: { readonly address: string; readonly agent: GpuAgent; readonly signal: AbortSignal },
  use: (client: InspectionServiceClient) => Promise<Answer>,
): Promise<Answer> {
  await checkAddress?.(agent, signal);
  const secure = tls?.to('agent', certificateOf(agent));
  const client = createClient(InspectionServiceClient, address, internalToken, secure);
  try {
    return await use(client);
  } finally {
    client.close();
  }
}

export interface AccountTurnsOptions {
  /** Most tasks of an account that wait for the one under way. */
  readonly maxWaiting: number;
  /** Longest time of a task with its wait, in ms. */
  readonly limitMs: number;
  /** The error of a task that would wait behind too many. */
  readonly tooMany: string;
  /** The error of a task that took longer than the limit. */
  readonly tooLong: string;
}

/**
 * Runs an account's tasks one at a time.
 * @param caller aborts when nobody waits any more
 * @throws ApiError at_capacity; the caller's reason; what the task throws
 */
export type AccountTurns = <T>(
  accountId: string,
  caller: AbortSignal,
  task: (signal: AbortSignal) => Promise<T>,
) => Promise<T>;

export function createAccountTurns(options: AccountTurnsOptions): AccountTurns {
  const inTurn = createTurns();
  const waiting = new Map<string, number>();
  return async (accountId, caller, task) => {
    const ahead = waiting.get(accountId) ?? 0;
    if (ahead > options.maxWaiting) throw busy(options.tooMany);
    waiting.set(accountId, ahead + 1);
    const late = AbortSignal.timeout(options.limitMs);
    const signal = AbortSignal.any([caller, late]);
    try {
      return await inTurn(accountId, signal, () => task(signal));
    } catch (error) {
      caller.throwIfAborted();
      if (late.aborted) throw busy(options.tooLong);
      throw error;
    } finally {
      const left = (waiting.get(accountId) ?? 1) - 1;
      if (left > 0) waiting.set(accountId, left);
      else waiting.delete(accountId);
    }
  };
}
