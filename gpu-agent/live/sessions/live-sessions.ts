import { createHash } from 'node:crypto';
import { createChanges } from '@semblance/common/async/changes';
import { createListeners } from '@semblance/common/async/listeners';
import { describeError } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';
import type { LiveCapability, LiveEngine, LiveMedia } from '@semblance/engine-api/live-engine';
import type { LiveMetrics } from '../live-metrics.ts';
import { type ChangeableSession, sessionChanger } from './change-session.ts';
import { endByCheck } from './check-inputs.ts';
import type { SessionWork } from './claim-request.ts';
import { createDeadline } from './deadline.ts';
import { type PrepareOptions, prepareStream } from './prepare.ts';
import { createProgress } from './progress.ts';
import { ClaimRefusedError, ConnectRefusedError } from './refusals.ts';
import {
  createSessionTable,
  DEFAULT_SESSION_LIMITS,
  type LiveSession,
  type SessionEnd,
  type SessionTable,
  type SessionTableLimits,
} from './session-table.ts';

export interface LiveSessionsOptions extends PrepareOptions {
  readonly engines: readonly LiveEngine[];
  readonly metrics: LiveMetrics;
  readonly logger: Logger;
  /** Whether the agent holds its Lease, by its own clock, and so may work. */
  readonly holdsLease: () => boolean;
  readonly limits?: SessionTableLimits;
}

/** One session as its relay sees it. */
export interface ConnectedSession {
  readonly id: string;
  readonly capability: LiveCapability;
  readonly delivery: LiveEngine['delivery'];
  /** Rejects when the session ends before the stream is ready. */
  readonly stream: Promise<LiveMedia>;
  received(): void;
  dropped(): void;
  /** @param delayMs undefined when it is not known */
  converted(delayMs: number | undefined): void;
  /** Ends the session; resolves when its slot is free. */
  end(end: SessionEnd): Promise<void>;
}

export interface LiveSessions {
  /**
   * Takes a slot, once, and begins to prepare the session's stream.
   * @throws ClaimRefusedError, LiveSettingsError
   */
  claim(work: SessionWork): void;
  /** Ends a session and forbids its id for ever. Resolves when its slot is free. */
  end(id: string, end: SessionEnd): Promise<void>;
  /**
   * Admits the only relay of a session.
   * @throws ConnectRefusedError
   */
  connect(id: string, ticket: Uint8Array, told: Told): ConnectedSession;
  /**
   * Changes the prompt, face or voice of a session that is ready, while its media flow.
   * @throws ChangeRefusedError when nothing has changed; SessionNotReadyError; LiveSettingsError
   */
  readonly change: ReturnType<typeof sessionChanger>;
  get(id: string): LiveSession | undefined;
  list(): LiveSession[];
  /** Number of sessions of a capability whose slots are taken. */
  held(capability: LiveCapability): number;
  /** Calls the listener for each changed session; progress is throttled. Returns the function that unsubscribes. */
  subscribe(listener: (id: string) => void): () => void;
  /** Ends every session; resolves when all slots are free. */
  endAll(end: SessionEnd): Promise<void>;
  /** Warns the relays of all sessions, and of later ones, that their sessions will be ended. */
  warn(warning: Warning): void;
  /** While true, claims are refused and held sessions go on. */
  drain(wanted: boolean): void;
  /** Resolves when no session is held, or the signal aborts. */
  idle(signal: AbortSignal): Promise<void>;
}

/** Events of a session for its relay. */
export interface Told {
  /** Called when the session begins to end. */
  onEnd(end: SessionEnd): void;
  /** Called when the session will be ended later. */
  onWarning(warning: Warning): void;
}

export interface Warning {
  /** Stable identifier for the client. */
  readonly reason: 'agent_draining';
  /** Time at which the sessions will be ended, by performance.now(). */
  readonly at: number;
}

interface Held extends ChangeableSession {
  readonly controller: AbortController;
  readonly stream: Promise<LiveMedia>;
  told: Told | undefined;
  /** How the session ends once its client comes; an earlier end would tell nobody the reason. */
  refused: SessionEnd | undefined;
  over: Promise<void> | undefined;
}

const CANNOT_CONVERT: SessionEnd = {
  reason: 'render_failed',
  message: 'the stream could not be converted',
};

/** Creates the live sessions of this agent: the rules of the table joined to engines and clocks. */
export function createLiveSessions(options: LiveSessionsOptions): LiveSessions {
  const { engines, metrics } = options;
  const table = createSessionTable(options.limits ?? DEFAULT_SESSION_LIMITS);
  const sessions = new Map<string, Held>();
  const { tell, subscribe } = createListeners<string>();
  const changes = createChanges();
  const deadline = createDeadline(() => {
    for (const { id, end } of table.due(performance.now())) void endOne(id, end);
    deadline.set(table.nextDue());
  });
  const progress = createProgress(table, tell);
  let draining = false;
  let warning: Warning | undefined;

  const engineOf = (capability: LiveCapability) => engines.find((each) => each.capability === capability);

  /** Starts or stops the timers; they run only while there is a session. */
  function wind(): void {
    deadline.set(table.nextDue());
    progress.run(sessions.size > 0);
  }

  function claim(work: SessionWork): void {
    const engine = engineOf(work.capability);
    if (!engine) throw new ClaimRefusedError('no-engine', `this agent does no live ${work.capability}`);
    engine.check(work.settings);
    if (!options.holdsLease() && !table.get(work.id))
      throw new ClaimRefusedError('no-lease', 'the agent cannot renew its lease');
    const decision = table.claim(work, { capacity: engine.slots, draining, at: performance.now() });
    if (decision.kind === 'known') return;
    if (decision.kind === 'refused') {
      metrics.refusals.inc({ capability: work.capability, why: decision.why });
      throw new ClaimRefusedError(decision.why, decision.message);
    }
    begin(work, engine);
  }

  function begin(work: SessionWork, engine: LiveEngine): void {
    const logger = loggerOf(options.logger, work);
    const controller = new AbortController();
    const { signal } = controller;
    const onFailed = (error: Error) => {
      if (signal.aborted) return;
      logger.warn({ err: error }, `the stream failed: ${error.message}`);
      void endOne(work.id, CANNOT_CONVERT);
    };
    const ready = metrics.openSeconds.startTimer({ capability: work.capability });
    const stream = prepareStream(options, { work, engine, signal, logger, onFailed });
    const none = { told: undefined, media: undefined, refused: undefined, over: undefined };
    const held: Held = { work, controller, signal, logger, stream, changing: false, ...none };
    sessions.set(work.id, held);
    stream.then(
      (media) => {
        held.media = media;
        ready();
      },
      (error: unknown) => {
        if (signal.aborted) return;
        logger.warn({ err: error }, `cannot prepare the session: ${describeError(error)}`);
        held.refused = endByCheck(error);
        if (held.refused && !held.told) return;
        const failed = { reason: 'render_failed', message: 'the session could not be made ready' } as const;
        void endOne(work.id, held.refused ?? failed);
      },
    );
    logger.info('slot claimed');
    wind();
    tell(work.id);
  }

  function endOne(id: string, wanted: SessionEnd): Promise<void> {
    const held = sessions.get(id);
    // If a check refused the session, its reason counts, whoever ends the session before its client comes.
    const end = (!held?.told && held?.refused) || wanted;
    if (table.ending(id, end, performance.now()) === 'over') return Promise.resolve();
    if (!held) return Promise.resolve();
    held.over ??= finish(id, held);
    return held.over;
  }

  async function finish(id: string, held: Held): Promise<void> {
    const { logger, work } = held;
    const end = table.get(id)?.end ?? { reason: undefined, message: '' };
    held.controller.abort(new Error(`the session ended: ${end.reason ?? 'closed'}`));
    held.told?.onEnd(end);
    // Whether this succeeds or fails, the engine can then take its next stream; only then is the slot free.
    try {
      await (await held.stream).close();
    } catch (error) {
      logger.debug({ err: error }, 'a session ended before its stream was open');
    }
    sessions.delete(id);
    table.ended(id, performance.now());
    const { streamedMs = 0, received, converted, dropped } = table.get(id) ?? {};
    metrics.ended.inc({ capability: work.capability, reason: end.reason ?? 'closed' });
    const facts = { reason: end.reason, streamedMs: Math.round(streamedMs), received, converted, dropped };
    logger.info(facts, 'session ended');
    tell(id);
    wind();
    changes.changed();
  }

  function connect(id: string, ticket: Uint8Array, told: Told): ConnectedSession {
    const digest = createHash('sha256').update(ticket).digest();
    const decision = options.holdsLease() ? table.connect(id, digest, performance.now()) : 'no-lease';
    const held = sessions.get(id);
    const engine = held && engineOf(held.work.capability);
    if (decision !== 'connected' || !held || !engine) {
      const end = decision === 'ended' ? table.get(id)?.end : undefined;
      throw new ConnectRefusedError(decision === 'connected' ? 'unknown' : decision, end);
    }
    held.told = told;
    held.logger.info('relay connected');
    if (warning) told.onWarning(warning);
    const { refused } = held;
    // The relay must first learn that it is admitted.
    if (refused) queueMicrotask(() => void endOne(id, refused));
    wind();
    tell(id);
    const onFirst = () => {
      wind();
      tell(id);
    };
    return connected({ id, engine, held, table, metrics, onFirst, end: (end) => endOne(id, end) });
  }

  const change = sessionChanger({
    ...options,
    find: (id) => sessions.get(id),
    check: ({ capability }, settings) => engineOf(capability)?.check(settings),
    fail: (id) => void endOne(id, CANNOT_CONVERT),
  });

  return {
    claim,
    end: endOne,
    connect,
    change,
    get: (id) => table.get(id),
    list: () => table.list(),
    held: (capability) => table.held(capability).length,
    subscribe,
    async endAll(end) {
      await Promise.all(table.held().map(({ id }) => endOne(id, end)));
    },
    warn(given) {
      warning = given;
      for (const { told } of sessions.values()) told?.onWarning(given);
    },
    drain(wanted) {
      draining = wanted;
    },
    idle: (signal) => changes.until(() => sessions.size === 0, signal),
  };
}

/** @param onFirst called when the first converted message was sent */
function connected({
  id,
  engine,
  held: { work, stream },
  table,
  metrics,
  onFirst,
  end,
}: {
  readonly id: string;
  readonly engine: LiveEngine;
  readonly held: Held;
  readonly table: SessionTable;
  readonly metrics: LiveMetrics;
  readonly onFirst: () => void;
  readonly end: ConnectedSession['end'];
}): ConnectedSession {
  const { capability } = work;
  const counted = (what: string) => metrics.messages.labels({ capability, what });
  const [received, dropped, converted] = [counted('received'), counted('dropped'), counted('converted')];
  const delay = metrics.delay.labels({ capability });
  return {
    id,
    capability,
    delivery: engine.delivery,
    stream,
    received() {
      table.received(id);
      received.inc();
    },
    dropped() {
      table.dropped(id);
      dropped.inc();
    },
    converted(delayMs) {
      converted.inc();
      if (delayMs !== undefined) delay.observe(delayMs / 1000);
      if (table.converted(id, performance.now())) onFirst();
    },
    end,
  };
}

function loggerOf(logger: Logger, { id, capability, requestId }: SessionWork): Logger {
  return logger.child({ sessionId: id, capability, ...(requestId ? { requestId } : {}) });
}
