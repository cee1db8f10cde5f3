import { afterAbort } from '@semblance/common/async/abort';
import type { Tls } from '@semblance/common/grpc/tls/tls';
import type { Logger } from '@semblance/common/logging';
import type { SessionStatus } from '@semblance/proto/semblance/live/v1/live';
import type { AgentView } from '../agents/view.ts';
import { createLiveLink, type LiveLink } from './live-link.ts';
import type { Place } from './slot-book.ts';

export interface LiveLinksOptions {
  /** Returns undefined when there is no such agent. */
  readonly viewOf: (agent: string) => AgentView | undefined;
  readonly internalToken?: string | undefined;
  readonly tls?: Tls | undefined;
  /** As in LiveLinkOptions. */
  readonly claimTimeoutMs?: number | undefined;
  readonly logger: Logger;
  readonly onSnapshot: (place: Place, sessions: readonly SessionStatus[], openedAt: number) => void;
  readonly onReport: (place: Place, session: SessionStatus) => void;
  /** Called when the stream has ended. Another is being opened. */
  readonly onDisconnected: (place: Place) => void;
}

/** Connections to the agents that carry live sessions. */
export interface LiveLinks {
  run(signal: AbortSignal): Promise<void>;
  /** Must be called when the agent has changed. */
  touch(agent: string): void;
  /** Returns the link to exactly that process, or undefined. */
  to(place: Place): LiveLink | undefined;
}

interface Connection {
  readonly link: LiveLink;
  readonly stop: AbortController;
  readonly done: Promise<void>;
}

export function createLiveLinks(options: LiveLinksOptions): LiveLinks {
  const { logger } = options;
  const connections = new Map<string, Connection>();
  let running: AbortSignal | undefined;

  function connect(agent: string, view: AgentView, signal: AbortSignal): void {
    const { incarnation, address, certificate } = view;
    const place = { agent, incarnation };
    const stop = new AbortController();
    const over = AbortSignal.any([signal, stop.signal]);
    const link = createLiveLink({
      agent,
      incarnation,
      address,
      certificate,
      logger,
      token: options.internalToken,
      tls: options.tls,
      claimTimeoutMs: options.claimTimeoutMs,
      onSnapshot(sessions, openedAt) {
        if (over.aborted) return;
        logger.info({ agent, incarnation, sessions: sessions.length }, 'read the live sessions of the agent');
        options.onSnapshot(place, sessions, openedAt);
      },
      onReport(session) {
        if (!over.aborted) options.onReport(place, session);
      },
      onDisconnected() {
        if (!over.aborted) options.onDisconnected(place);
      },
    });
    connections.set(agent, { link, stop, done: link.run(over) });
  }

  function disconnect(agent: string): void {
    const connection = connections.get(agent);
    if (!connection) return;
    connections.delete(agent);
    connection.stop.abort(new Error('another process of the agent, or none'));
  }

  return {
    async run(signal) {
      running = signal;
      await afterAbort(signal);
      await Promise.all([...connections.values()].map(({ done }) => done));
    },
    touch(agent) {
      if (!running || running.aborted) return;
      const view = options.viewOf(agent);
      const { link } = connections.get(agent) ?? {};
      const same = view && link?.incarnation === view.incarnation && link.address === view.address;
      if (same) return;
      disconnect(agent);
      // An agent without live slots need not offer the service.
      if (view?.incarnation && view.address && view.live.size > 0) connect(agent, view, running);
    },
    to({ agent, incarnation }) {
      const { link } = connections.get(agent) ?? {};
      return link?.incarnation === incarnation ? link : undefined;
    },
  };
}
