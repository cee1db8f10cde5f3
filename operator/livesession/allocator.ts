import { setTimeout as delay } from 'node:timers/promises';
import { status } from '@grpc/grpc-js';
import { ApiError, describeError } from '@semblance/common/errors';
import { GrpcError } from '@semblance/common/grpc/server';
import { isKubeError, type KubeClient, type Reflector } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import { LIVESESSION_RESOURCE, type LiveSession } from '@semblance/crds/gen/livesessions';
import type { ObjectStore } from '@semblance/objects/store';
import type { ClaimSlotRequest, Source } from '@semblance/proto/semblance/live/v1/live';
import type { AllocateRequest, AllocateResponse } from '@semblance/proto/semblance/operator/v1/operator';
import type { RefusedOpens } from '../pools/refused-opens.ts';
import type { AgentFate } from '../renderjob/types.ts';
import type { LiveLinks } from './live-links.ts';
import type { AllocationOutcome, LiveMetrics } from './live-metrics.ts';
import { type Placer, placeKey, WAIT_FOR_SLOT_MS } from './placer.ts';
import { isActive, type Place, type SlotBook } from './slot-book.ts';
import { ALLOCATED_BY, isStanding } from './status.ts';

/** Pause for an agent that has no slot where the slot book has one, in ms. */
const BUSY_PAUSE_MS = 250;
/** Pause for an agent that did not answer a claim, in ms. */
const SILENT_PAUSE_MS = 1_000;
/** Time in which a caller that lost its connection asks again, in ms. */
const ASKED_AGAIN_MS = 500;
/** Time by which links to inputs outlive the client's deadline to connect, in seconds. */
const LINK_SLACK_SECONDS = 600;
/** Largest face in bytes, as for an uploaded picture. */
const MAX_INPUT_BYTES = 45n * 1024n * 1024n;

export interface AllocatorOptions {
  /** A client with its own connections, so that bursts of other writes do not delay callers. */
  readonly client: KubeClient;
  readonly namespace: string;
  /** Name that this operator writes into the LiveSessions it creates. */
  readonly identity: string;
  readonly sessions: Reflector<LiveSession>;
  readonly book: SlotBook;
  readonly placer: Placer;
  readonly links: LiveLinks;
  readonly objects: ObjectStore;
  readonly fateOf: (place: Place) => AgentFate;
  /** Called with a session that the agent must end, or may have to end. */
  readonly onDoomed: (session: string) => void;
  /** Is told of opens that found no slot, and of those that did. */
  readonly opens?: Pick<RefusedOpens, 'refused' | 'opened'> | undefined;
  readonly metrics: LiveMetrics;
  readonly logger: Logger;
  /** Longest wait when all slots are taken, in ms. Default 2,000. */
  readonly waitForSlotMs?: number | undefined;
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
  const { client, namespace, sessions, book, placer, links, objects, metrics, logger } = options;
  const waitForSlotMs = options.waitForSlotMs ?? WAIT_FOR_SLOT_MS;
  const underWay = new Map<string, UnderWay>();

  /** Answers for a session that already has its slot. @throws GrpcError when that session has ended */
  function answerOf(session: LiveSession, request: AllocateRequest): AllocateResponse {
    const { agent, incarnation, capability } = session.spec;
    const place = { agent, incarnation };
    const name = session.metadata.name ?? '';
    if (capability !== request.capability) {
      throw new GrpcError(status.INVALID_ARGUMENT, `the session ${name} is one of ${capability}`);
    }
    const { report, over, doomed } = book.at(place, name) ?? {};
    const fate = options.fateOf(place);
    const gone = fate === 'lost' || fate === 'replaced';
    const link = links.to(place);
    if (!isStanding(session) || over || doomed || gone || (report && !isActive(report))) {
      throw new GrpcError(status.FAILED_PRECONDITION, `the session ${name} has ended`);
    }
    if (!link) throw new GrpcError(status.UNAVAILABLE, `${agent} is not known yet`);
    return { agent, incarnation, address: link.address };
  }

  async function signed(request: AllocateRequest): Promise<Record<string, Source>> {
    const expiresInSeconds = request.connectDeadlineSeconds + LINK_SLACK_SECONDS;
    const entries = Object.entries(request.inputs).map(async ([role, key]): Promise<[string, Source]> => {
      const url = await objects.signGet(key, { expiresInSeconds, audience: 'internal' });
      return [role, { url, maxBytes: MAX_INPUT_BYTES }];
    });
    return Object.fromEntries(await Promise.all(entries));
  }

  /** Returns whether the agent holds the slot. Other outcomes are recorded in the slot book. */
  async function claim(place: Place, request: ClaimSlotRequest, signal: AbortSignal, traceparent?: string) {
    const { sessionId, capability } = request;
    const link = links.to(place);
    const silent = { kind: 'unknown', message: 'the connection to it is gone' } as const;
    const refusal = link ? await link.claim(request, signal, traceparent) : silent;
    if (!refusal) {
      book.confirm(place, sessionId);
      return true;
    }
    const { kind, message } = refusal;
    metrics.refused(kind);
    logger.warn({ session: sessionId, ...place, kind, reason: message }, 'the agent refused a slot');
    if (kind === 'unknown' && link) doom(place, sessionId, capability);
    else book.unclaim(place, sessionId);
    if (kind === 'busy') placer.pause(place.agent, BUSY_PAUSE_MS, capability);
    if (kind === 'unknown') placer.pause(place.agent, SILENT_PAUSE_MS);
    return false;
  }

  function doom(place: Place, session: string, capability: string): void {
    book.doom(place, session, capability);
    options.onDoomed(session);
  }

  /** Returns a slot that an agent holds for the session. */
  async function slotFor(request: AllocateRequest, signal: AbortSignal, traceparent?: string) {
    const { sessionId: session, capability } = request;
    const { connectDeadlineSeconds, maxDurationSeconds, settings, ticketSha256, requestId } = request;
    const until = performance.now() + waitForSlotMs;
    const inputs = await signed(request);
    const refused = new Set<string>();
    for (;;) {
      const place = await placer.acquire({ session, capability, refused, until, signal });
      // This comes as soon as the slot counts as taken. A pool would otherwise also see the session waiting, and
      // start an agent for nobody. It counts once, whoever refuses later; an open that finds no slot in the end is
      // refused again.
      if (refused.size === 0) options.opens?.opened(capability, request.account);
      const asked = {
        sessionId: session,
        incarnation: place.incarnation,
        capability,
        ticketSha256,
        settings,
        inputs,
        connectDeadlineSeconds,
        maxDurationSeconds,
        requestId,
      };
      try {
        if (await claim(place, asked, signal, traceparent)) return place;
      } catch (error) {
        // The claim was cut off, so the agent may hold the slot.
        doom(place, session, capability);
        throw error;
      }
      refused.add(placeKey(place));
    }
  }

  async function write(place: Place, request: AllocateRequest, signal: AbortSignal): Promise<void> {
    const { sessionId: name, capability, account, maxDurationSeconds, connectDeadlineSeconds } = request;
    const { agent, incarnation } = place;
    const object = {
      metadata: { name, namespace, annotations: { [ALLOCATED_BY]: options.identity } },
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
    const { apiVersion, kind } = { apiVersion: 'semblance.dev/v1alpha1', kind: 'LiveSession' } as const;
    sessions.note({ ...object, apiVersion, kind, metadata: { ...object.metadata, ...metadata } });
  }

  /** Ends a session that no caller waits for: frees its slot now, and deletes the LiveSession when it appears. */
  async function withdraw(
    place: Place,
    { sessionId: name, capability }: AllocateRequest,
    signal: AbortSignal,
  ) {
    logger.info({ session: name, ...place }, 'ending a session that no caller waits for');
    doom(place, name, capability);
    await client.delete(LIVESESSION_RESOURCE, { namespace, name }, { signal }).catch((error: unknown) => {
      if (!isKubeError(error, 'not_found'))
        logger.warn(
          { session: name },
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
    const place = await slotFor(request, AbortSignal.any([givenUp, term]), traceparent);
    const { agent, incarnation, address } = place;
    try {
      givenUp.throwIfAborted();
      // A caller that gives up does not abort the write: its outcome would be unknown.
      await write(place, request, term);
    } catch (error) {
      const standing = isKubeError(error, 'already_exists')
        ? await client.find(LIVESESSION_RESOURCE, { namespace, name }, { signal: term })
        : undefined;
      if (standing) sessions.note(standing);
      const ours = standing?.spec.agent === agent && standing.spec.incarnation === incarnation;
      if (!ours) doom(place, name, capability);
      if (standing) return answerOf(standing, request);
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
              { session: sessionId, capability, reason: describeError(error) },
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
          const answer = answerOf(standing, request);
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
