import type { Logger } from '@semblance/common/logging';
import type { ObjectStore } from '@semblance/objects/store';
import type { ClaimSlotRequest, Source } from '@semblance/proto/semblance/live/v1/live';
import type { AllocateRequest } from '@semblance/proto/semblance/operator/v1/operator';
import type { RefusedOpens } from '../pools/refused-opens.ts';
import type { LiveLinks } from './live-links.ts';
import type { LiveMetrics } from './live-metrics.ts';
import { type FoundPlace, type Placer, placeKey, WAIT_FOR_SLOT_MS } from './placer.ts';
import type { Place, SlotBook } from './slot-book.ts';

/** Pause for an agent that has no slot where the slot book has one, in ms. */
const BUSY_PAUSE_MS = 250;
/** Pause for an agent that did not answer a claim, in ms. */
const SILENT_PAUSE_MS = 1_000;
/** Time by which links to inputs outlive the client's deadline to connect, in seconds. */
const LINK_SLACK_SECONDS = 600;
/** Largest face in bytes, as for an uploaded picture. */
const MAX_INPUT_BYTES = 45n * 1024n * 1024n;

export interface SlotClaimsOptions {
  readonly book: SlotBook;
  readonly placer: Placer;
  readonly links: LiveLinks;
  readonly objects: ObjectStore;
  /** Called with a session that the agent must end, or may have to end. */
  readonly onDoomed: (session: string) => void;
  /** Is told of opens that found no slot, and of those that did. */
  readonly opens?: Pick<RefusedOpens, 'refused' | 'opened'> | undefined;
  readonly metrics: LiveMetrics;
  readonly logger: Logger;
  /** Longest wait when all slots are taken, in ms. Default 2,000. */
  readonly waitForSlotMs?: number | undefined;
}

/** Claims slots of live sessions at agents. */
export interface SlotClaims {
  /** Returns a slot that an agent holds for the session. @throws ApiError `capacity_…`, or the signal's reason */
  claim(request: AllocateRequest, signal: AbortSignal, traceparent?: string): Promise<FoundPlace>;
  /** Frees the slot in the book, and lets the agent end the session if it holds it. */
  doom(place: Place, session: string, capability: string): void;
}

export function createSlotClaims(options: SlotClaimsOptions): SlotClaims {
  const { book, placer, links, objects, metrics, logger } = options;
  const waitForSlotMs = options.waitForSlotMs ?? WAIT_FOR_SLOT_MS;

  async function signed(request: AllocateRequest): Promise<Record<string, Source>> {
    const expiresInSeconds = request.connectDeadlineSeconds + LINK_SLACK_SECONDS;
    const entries = Object.entries(request.inputs).map(async ([role, key]): Promise<[string, Source]> => {
      const url = await objects.signGet(key, { expiresInSeconds, audience: 'internal' });
      return [role, { url, maxBytes: MAX_INPUT_BYTES }];
    });
    return Object.fromEntries(await Promise.all(entries));
  }

  /** Returns whether the agent holds the slot. Other outcomes are recorded in the slot book. */
  async function ask(place: Place, request: ClaimSlotRequest, signal: AbortSignal, traceparent?: string) {
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
    logger.warn({ sessionId, ...place, kind, reason: message }, 'the agent refused a slot');
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

  return {
    async claim(request, signal, traceparent) {
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
        const claim = {
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
          if (await ask(place, claim, signal, traceparent)) return place;
        } catch (error) {
          // The claim was cut off, so the agent may hold the slot.
          doom(place, session, capability);
          throw error;
        }
        refused.add(placeKey(place));
      }
    },
    doom,
  };
}
