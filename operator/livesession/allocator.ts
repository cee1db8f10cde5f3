import { setTimeout as delay } from 'node:timers/promises';
import { status } from '@grpc/grpc-js';
import { ApiError, describeError } from '@semblance/common/errors';
import { GrpcError } from '@semblance/common/grpc/server';
import { isKubeError, type KubeClient, type Reflector } from '@semblance/common/kube/index';
import { LIVESESSION_RESOURCE, type LiveSession } from '@semblance/crds/gen/livesessions';
import type { AllocateRequest, AllocateResponse } from '@semblance/proto/semblance/operator/v1/operator';
import type { AgentFate } from '../renderjob/types.ts';
import type { LiveLinks } from './live-links.ts';
import type { AllocationOutcome } from './live-metrics.ts';
import { isActive, type Place } from './slot-book.ts';
import { createSlotClaims, type SlotClaimsOptions } from './slot-claims.ts';
import { ALLOCATED_BY, isStanding } from './status.ts';

/** Time in which a caller that lost its connection asks again, in ms. */
const ASKED_AGAIN_MS = 500;

export interface AllocatorOptions extends SlotClaimsOptions {
  /** A client with its own connections, so that bursts of other writes do not delay callers. */
  readonly client: KubeClient;
  readonly namespace: string;
  /** Name that this operator writes into the LiveSessions it creates. */
  readonly identity: string;
  readonly sessions: Reflector<LiveSession>;
  readonly links: LiveLinks;
  readonly fateOf: (place: Place) => AgentFate;
}

export interface CallerContext {
  /** Aborts when the caller gives up. */
  readonly signal: AbortSignal;
  readonly traceparent?: string | undefined;
}

export interface Allocator {
  /** @throws ApiError `capacity_…`; GrpcError for what cannot be allocated; KubeError */
  allocate(request: AllocateRequest, caller: CallerContext, term: AbortSignal): Promise<AllocateResponse>;
}

interface UnderWay {
  readonly capability: string;
  readonly answer: Promise<AllocateResponse>;
  readonly givenUp: AbortController;
  /** Signals of the callers that joined after the first one cancelled. */
  readonly again: Set<AbortSignal>;
  callers: number;
}

/** Claims a slot at an agent, then writes the LiveSession. A second call for a session gets the same answer. */
export function createAllocator(options: AllocatorOptions): Allocator {
  const { client, namespace, sessions, book, metrics, logger } = options;
  const claims = createSlotClaims(options);
  const underWay = new Map<string, UnderWay>();

  /** Ends a session that no caller waits for: frees its slot now, and deletes the LiveSession when it appears. */
  async function withdraw(
    place: Place,
    { sessionId: name, capability }: AllocateRequest,
    signal: AbortSignal,
  ) {
    logger.info({ sessionId: name, ...place }, 'ending a session that no caller waits for');
    claims.doom(place, name, capability);
    await client.delete(LIVESESSION_RESOURCE, { namespace, name }, { signal }).catch((error: unknown) => {
      if (!isKubeError(error, 'not_found'))
        logger.warn(
          { sessionId: name },
          `cannot delete a LiveSession, the sweep will: ${describeError(error)}`,
        );
    });
  }

  async function bind(
    request: AllocateRequest,
    { givenUp, again }: { readonly givenUp: AbortSignal; readonly again: ReadonlySet<AbortSignal> },
    term: AbortSignal,
    traceparent?: string,
  ): Promise<AllocateResponse> {
    const { sessionId: name, capability } = request;
    const place = await claims.claim(request, AbortSignal.any([givenUp, term]), traceparent);
    const { agent, incarnation, address } = place;
    try {
      givenUp.throwIfAborted();
      // A caller that gives up does not abort the write: its outcome would be unknown.
      sessions.note(await createBound(options, place, request, term));
    } catch (error) {
      const standing = isKubeError(error, 'already_exists')
        ? await client.find(LIVESESSION_RESOURCE, { namespace, name }, { signal: term })
        : undefined;
      if (standing) sessions.note(standing);
      const ours = standing?.spec.agent === agent && standing.spec.incarnation === incarnation;
      if (!ours) claims.doom(place, name, capability);
      if (standing) return answerOf(options, standing, request);
      if (isKubeError(error, 'invalid')) throw new GrpcError(status.INVALID_ARGUMENT, error.message);
      throw error;
    } finally {
      book.unclaim(place, name);
    }
    // The caller cancelled during the create, so its delete ran too early: delete the object here.
    const isWanted = () => !givenUp.aborted || [...again].some((signal) => !signal.aborted);
    if (!isWanted()) await delay(ASKED_AGAIN_MS);
    if (!isWanted()) {
      await withdraw(place, request, term);
      throw givenUp.reason;
    }
    return { agent, incarnation, address };
  }

  function begin(request: AllocateRequest, term: AbortSignal, traceparent?: string): UnderWay {
    const { sessionId, capability } = request;
    const givenUp = new AbortController();
    const began = performance.now();
    const note = (outcome: AllocationOutcome) =>
      metrics.allocated(capability, outcome, (performance.now() - began) / 1000);
    const again = new Set<AbortSignal>();
    const answer = bind(request, { givenUp: givenUp.signal, again }, term, traceparent);
    answer
      .then(
        () => note('allocated'),
        (error: unknown) => {
          const code = error instanceof ApiError ? error.code : '';
          const full = code === 'capacity_warming' || code === 'capacity_unavailable';
          note(full ? code : 'failed');
          if (full) options.opens?.refused(capability, request.account);
          if (!givenUp.signal.aborted)
            logger.info(
              { sessionId, capability, reason: describeError(error) },
              'found no slot for a session',
            );
        },
      )
      .finally(() => underWay.delete(sessionId));
    const made = { capability, answer, givenUp, again, callers: 0 };
    underWay.set(sessionId, made);
    return made;
  }

  return {
    async allocate(request, { signal, traceparent }, term) {
      signal.throwIfAborted();
      let running = underWay.get(request.sessionId);
      while (running?.givenUp.signal.aborted) {
        running.again.add(signal);
        await running.answer.catch(() => {});
        running = underWay.get(request.sessionId);
      }
      if (running && running.capability !== request.capability) {
        throw new GrpcError(status.INVALID_ARGUMENT, `the session is one of ${running.capability}`);
      }
      if (!running) {
        const standing = sessions.get(request.sessionId);
        if (standing) {
          const answer = answerOf(options, standing, request);
          metrics.allocated(request.capability, 'again', 0);
          return answer;
        }
        running = begin(request, term, traceparent);
      }
      const joined = running;
      joined.callers++;
      const leave = () => {
        if (--joined.callers === 0) joined.givenUp.abort(new Error('nobody waits for the session any more'));
      };
      signal.addEventListener('abort', leave, { once: true });
      try {
        return await joined.answer;
      } finally {
        signal.removeEventListener('abort', leave);
      }
    },
  };
}

/** Answers for a session that already has its slot. @throws GrpcError when that session has ended */
function answerOf(
  { book, links, fateOf }: Pick<AllocatorOptions, 'book' | 'links' | 'fateOf'>,
  session: LiveSession,
  request: AllocateRequest,
): AllocateResponse {
  const { agent, incarnation, capability } = session.spec;
  const place = { agent, incarnation };
  const name = session.metadata.name ?? '';
  if (capability !== request.capability) {
    throw new GrpcError(status.INVALID_ARGUMENT, `the session ${name} is one of ${capability}`);
  }
  const { report, over, doomed } = book.at(place, name) ?? {};
  const fate = fateOf(place);
  const gone = fate === 'lost' || fate === 'replaced';
  const link = links.to(place);
  if (!isStanding(session) || over || doomed || gone || (report && !isActive(report))) {
    throw new GrpcError(status.FAILED_PRECONDITION, `the session ${name} has ended`);
  }
  if (!link) throw new GrpcError(status.UNAVAILABLE, `${agent} is not known yet`);
  return { agent, incarnation, address: link.address };
}

/** Creates the LiveSession of a claimed slot and returns it as the API stored it. @throws KubeError */
async function createBound(
  { client, namespace, identity }: Pick<AllocatorOptions, 'client' | 'namespace' | 'identity'>,
  { agent, incarnation }: Place,
  request: AllocateRequest,
  signal: AbortSignal,
): Promise<LiveSession> {
  const { sessionId: name, capability, account, maxDurationSeconds, connectDeadlineSeconds } = request;
  const object = {
    metadata: { name, namespace, annotations: { [ALLOCATED_BY]: identity } },
    spec: {
      capability: capability as LiveSession['spec']['capability'],
      agent,
      incarnation,
      ...(account && { account }),
      maxDurationSeconds,
      connectDeadlineSeconds,
    },
  };
  const { metadata } = await client.createForMetadata(LIVESESSION_RESOURCE, object, { signal });
  return {
    ...object,
    apiVersion: 'semblance.dev/v1alpha1',
    kind: 'LiveSession',
    metadata: { ...object.metadata, ...metadata },
  };
}
