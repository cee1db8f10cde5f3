import { createWorkQueue } from '@semblance/common/async/work-queue';
import {
  type EventRecorder,
  isKubeError,
  type KubeClient,
  type Reflector,
} from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';
import {
  LIVESESSION_RESOURCE,
  type LiveSession,
  type LiveSessionStatus,
} from '@semblance/crds/gen/livesessions';
import type { Registry } from 'prom-client';
import type { AgentFate } from '../renderjob/types.ts';
import { createIdleTurns } from './idle-turns.ts';
import type { LiveLinks } from './live-links.ts';
import type { LiveMetrics } from './live-metrics.ts';
import { type Action, reconcile, type SessionSnapshot } from './reconcile.ts';
import type { Place, SlotBook } from './slot-book.ts';
import { isEnded, readyReasonOf } from './status.ts';

const FIGURES_EVERY_MS = 10_000;
/**
 * Sessions processed at once. A status write costs the API server twice as much as the creation of a session, which
 * comes first.
 */
const CONCURRENCY = 4;
/** Most decisions in one go for one session. More mean that deciding and doing disagree. */
const MAX_STEPS = 12;

export interface SessionControllerOptions {
  readonly client: KubeClient;
  readonly sessions: Pick<Reflector<LiveSession>, 'get' | 'note'>;
  readonly book: SlotBook;
  readonly links: LiveLinks;
  readonly fateOf: (place: Place) => AgentFate;
  readonly recorder: EventRecorder;
  readonly metrics: LiveMetrics;
  readonly registry: Registry;
  readonly logger: Logger;
}

export interface SessionController {
  /** Must be called when the session may have changed. */
  touch(name: string): void;
  run(signal: AbortSignal): Promise<void>;
}

/** Takes snapshots of sessions, asks `reconcile`, and performs its actions. */
export function createSessionController(options: SessionControllerOptions): SessionController {
  const { client, sessions, book, links, fateOf, recorder, metrics, logger } = options;
  /** performance.now() of the last write of each session. */
  const writtenAt = new Map<string, number>();
  const turns = createIdleTurns();

  /** performance.now() since when the agent of each session has been unreachable. */
  const unreachableSince = new Map<string, number>();

  function unreachableForMs(name: string, fate: AgentFate): number {
    if (fate !== 'unreachable') {
      unreachableSince.delete(name);
      return 0;
    }
    const now = performance.now();
    const since = unreachableSince.get(name) ?? now;
    unreachableSince.set(name, since);
    return now - since;
  }

  function snapshot(name: string): SessionSnapshot {
    const session = sessions.get(name);
    const fate = session ? fateOf(session.spec) : 'unreachable';
    const holdings = book.of(name).map((holding) => ({ ...holding, fate: fateOf(holding.place) }));
    const written = writtenAt.get(name) ?? Number.NEGATIVE_INFINITY;
    return {
      session,
      now: Date.now(),
      holdings,
      fate,
      unreachableForMs: session ? unreachableForMs(name, fate) : 0,
      figuresDueInMs: Math.max(0, written + FIGURES_EVERY_MS - performance.now()),
    };
  }

  /** Marks the session as ended at processes that are gone. */
  function settle(name: string): void {
    for (const { place, claimed } of book.of(name)) {
      const fate = fateOf(place);
      if (!claimed && (fate === 'replaced' || fate === 'lost')) book.ended(place, name);
    }
  }

  async function perform(
    action: Action,
    name: string,
    session: LiveSession | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    switch (action.type) {
      case 'end': {
        const { place, reason } = action;
        const link = links.to(place);
        if (!link) return;
        logger.info({ sessionId: name, ...place }, 'ending a session that no LiveSession asks for');
        await link.end(name, reason, signal);
        book.ended(place, name);
        return;
      }
      case 'status': {
        if (!session) return;
        const written = await write(session, action.status, signal);
        if (action.event) recorder.event(written, action.event);
        if (isEnded(written)) metrics.ended(session.spec.capability, readyReasonOf(written));
        return;
      }
      case 'delete':
        if (session)
          await client.delete(LIVESESSION_RESOURCE, refOf(session), { ...versionOf(session), signal });
    }
  }

  /**
   * Writes only to the version that the status was decided from, so that it never overwrites a later leader's
   * write.
   */
  async function write(
    session: LiveSession,
    status: LiveSessionStatus,
    signal: AbortSignal,
  ): Promise<LiveSession> {
    const written = await client.apply(
      LIVESESSION_RESOURCE,
      { metadata: { ...refOf(session), ...versionOf(session) }, status },
      { subresource: 'status', signal },
    );
    writtenAt.set(session.metadata.name ?? '', performance.now());
    sessions.note(written);
    return written;
  }

  async function process(name: string, signal: AbortSignal): Promise<{ requeueAfterMs: number } | undefined> {
    try {
      for (let step = 0; ; step++) {
        if (step >= MAX_STEPS) throw new Error(`no end after ${MAX_STEPS} decisions`);
        settle(name);
        const { actions, requeueAfterMs } = reconcile(snapshot(name));
        if (actions.length === 0) {
          if (!sessions.get(name)) forget(name);
          return requeueAfterMs === undefined ? undefined : { requeueAfterMs };
        }
        for (const action of actions) {
          signal.throwIfAborted();
          if (action.type === 'status' && action.idle) {
            const wait = turns.waitOf(name);
            if (wait > 0) return { requeueAfterMs: wait };
          }
          await perform(action, name, sessions.get(name), signal);
          if (action.type === 'delete') return undefined;
        }
      }
    } catch (error) {
      if (isKubeError(error, 'conflict', 'not_found')) {
        // The session is gone or replaced; the watch is about to say so.
        return { requeueAfterMs: (await refresh(name, signal)) ? 5 : 500 };
      }
      throw error;
    }
  }

  /** Reads the session again after a write conflict. @returns false when it is gone */
  async function refresh(name: string, signal: AbortSignal): Promise<boolean> {
    const known = sessions.get(name);
    const found = known && (await client.find(LIVESESSION_RESOURCE, refOf(known), { signal }));
    const same = found !== undefined && found.metadata.uid === known?.metadata.uid;
    if (same) sessions.note(found);
    return same;
  }

  function forget(name: string): void {
    writtenAt.delete(name);
    turns.forget(name);
    unreachableSince.delete(name);
  }

  const queue = createWorkQueue({
    process,
    concurrency: CONCURRENCY,
    name: 'livesessions',
    logger,
    registry: options.registry,
    maxDelayMs: 10_000,
  });
  return { touch: queue.add, run: queue.run };
}

const refOf = ({ metadata }: LiveSession) => ({ namespace: metadata.namespace, name: metadata.name ?? '' });
const versionOf = ({ metadata: { uid, resourceVersion } }: LiveSession) => ({ uid, resourceVersion });
