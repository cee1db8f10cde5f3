import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { createClientLog } from '@semblance/common/client-log';
import type { Tls } from '@semblance/common/grpc/tls/tls';
import type { Logger } from '@semblance/common/logging';
import type { ControlPlane } from '../control/control-plane.ts';
import type { GatewayMetrics } from '../metrics.ts';
import { type Admitted, admit } from './admit.ts';
import { type Agents, createAgents } from './agents.ts';
import { createChanges } from './changes.ts';
import type { Ending } from './endings.ts';
import { reasonOf } from './endings.ts';
import { beginHandshake, type Handshake } from './handshake.ts';
import { Meter } from './meter.ts';
import { streamTarget } from './paths.ts';
import { createReporter, type Reporter } from './reporter.ts';
import { asksForSocket, createSocketServers } from './socket-servers.ts';
import { Stream } from './stream.ts';
import type { StreamMetrics } from './stream-metrics.ts';
import { STREAM_PACE, type StreamPace } from './stream-pace.ts';
import { createStreamSet } from './stream-set.ts';

export interface LiveStreamsOptions {
  readonly control: Pick<ControlPlane, 'connectSession' | 'reportSessions' | 'changeSession'>;
  /** Token of the installation, sent to agents. */
  readonly token?: string | undefined;
  readonly tls?: Tls | undefined;
  readonly logger: Logger;
  readonly metrics: GatewayMetrics;
  readonly streamMetrics: StreamMetrics;
  /** Milliseconds of a monotonic clock. */
  readonly clock?: () => number;
  readonly pace?: Partial<StreamPace>;
  /** Interval at which all streams are checked, in ms. */
  readonly tickMs?: number;
  /** Longest wait for an agent to be ready, in ms. */
  readonly readyMs?: number;
  /** Time for a client to answer a close frame, in ms. */
  readonly closeMs?: number;
}

export interface LiveStreams {
  /** Returns whether this handles a request; called for each request that would leave HTTP. */
  wants(request: IncomingMessage): boolean;
  upgrade(request: IncomingMessage, socket: Socket, head: Buffer): void;
  readonly size: number;
  readonly reporter: Pick<Reporter, 'owed'>;
  readonly agents: Pick<Agents, 'size'>;
  /** Accepts no more streams, tells the clients, and gives them this time to end their streams. */
  drain(withinMs: number): Promise<void>;
  /** Ends all streams, accepts no more, and reports what they came to. */
  close(withinMs: number): Promise<void>;
}

const TICK_MS = 1_000;
/** Time for an agent to prepare its engine and fetch a face, in ms. */
const READY_MS = 10_000;
/** Most handshakes under way; more are refused at once. */
const MAX_HANDSHAKES = 1_000;

/** Creates all sockets of live sessions at this gateway, their common timer and their reports. */
export function createLiveStreams(options: LiveStreamsOptions): LiveStreams {
  const { control, logger, metrics, streamMetrics, tickMs = TICK_MS, readyMs = READY_MS } = options;
  const clock = options.clock ?? (() => performance.now());
  const pace = { ...STREAM_PACE, ...options.pace };
  const agents = createAgents({ token: options.token, tls: options.tls });
  const servers = createSocketServers(options.closeMs);
  const clientLog = createClientLog(logger);
  const reporter = createReporter({ send: control.reportSessions, logger });
  streamMetrics.reportsOwed(() => reporter.owed);
  const streams = createStreamSet({ clock, tickMs, onEmpty: checkEmpty });
  let handshakes = 0;
  let closing = false;
  /** By `clock`; undefined while it accepts streams. */
  let drainEndsAt: number | undefined;
  let onEmpty = () => {};

  function checkEmpty(): void {
    if (streams.size + handshakes === 0) onEmpty();
  }

  function warn(stream: Stream, endsAt: number): void {
    stream.warn('gateway_draining', Math.max(0, Math.round((endsAt - clock()) / 1000)));
  }

  async function connect(request: IncomingMessage, socket: Socket, head: Buffer): Promise<void> {
    const handshake = beginHandshake({ request, socket, logger, clientLog, metrics });
    if (closing || drainEndsAt !== undefined) return refuseEnding(handshake);
    if (handshakes >= MAX_HANDSHAKES)
      return handshake.refuse('at_capacity', 'Too many connections are being made; connect again shortly.');
    handshakes++;
    try {
      const admitted = await admit({ request, handshake, control, agents, reporter, readyMs });
      if (admitted) accept(admitted, request, socket, head, handshake);
    } finally {
      handshakes--;
      checkEmpty();
    }
  }

  function accept(
    { grant, relay, format, target }: Admitted,
    request: IncomingMessage,
    socket: Socket,
    head: Buffer,
    handshake: Handshake,
  ): void {
    const { capability } = grant;
    const meter = new Meter(grant.maxDurationSeconds * 1000, format.kind);
    const { sessionId, connectionId, notices } = target;
    const { requestId } = handshake;
    const ws = closing ? undefined : servers.accept(request, socket, head, relay.ready.maxMessageBytes);
    if (!ws) {
      relay.close(undefined);
      reporter.end({ sessionId, connectionId, streamedMs: 0, over() {} }, undefined);
      if (closing) refuseEnding(handshake);
      else handshake.refuse('invalid_input', 'The handshake is not that of a WebSocket.');
      return;
    }
    handshake.accepted();
    streamMetrics.opened(capability);
    const stream: Stream = new Stream({
      sessionId,
      connectionId,
      ws,
      socket,
      relay,
      format,
      meter,
      grantedSec: grant.maxDurationSeconds,
      notices,
      changes: target.changes
        ? createChanges({
            changeable: relay.ready.changeable,
            ask: (to, signal) => control.changeSession({ sessionId, connectionId, to }, requestId, signal),
            send: (text) => ws.send(text),
            onAnswered: (outcome) => streamMetrics.changed(capability, outcome),
          })
        : undefined,
      clock,
      lateMs: streams.lateMs,
      pace,
      onAnswered: streamMetrics.answeredOf(capability),
      onEnd: (ending) => ended(stream, capability, ending, requestId),
    });
    streams.add(stream);
    reporter.add(stream, grant.reportIntervalMs);
    stream.begin();
    if (drainEndsAt !== undefined) warn(stream, drainEndsAt);
  }

  function ended(stream: Stream, capability: string, ending: Ending, requestId: string): void {
    streams.delete(stream);
    reporter.end(stream, reasonOf(ending));
    const { sessionId, streamedMs, counts } = stream;
    streamMetrics.closed(capability, ending.name, streamedMs, counts.dropped);
    logger.info(
      { requestId, session: sessionId, capability, reason: ending.name, streamedMs, ...counts },
      'stream ended',
    );
  }

  return {
    wants: (request) => asksForSocket(request) && streamTarget(request.url) !== undefined,
    upgrade(request, socket, head) {
      connect(request, socket, head).catch((error: unknown) => {
        clientLog.error('socket', { err: error }, 'cannot make a socket');
        socket.destroy();
      });
    },
    get size() {
      return streams.size;
    },
    reporter,
    agents,
    async drain(withinMs) {
      drainEndsAt = clock() + withinMs;
      for (const stream of streams.all()) warn(stream, drainEndsAt);
      await new Promise<void>((resolve) => {
        const late = setTimeout(resolve, withinMs);
        onEmpty = () => {
          clearTimeout(late);
          resolve();
        };
        checkEmpty();
      });
    },
    async close(withinMs) {
      closing = true;
      const text = 'the gateway is ending; open another session';
      for (const stream of streams.all()) stream.end({ name: 'going_away', text });
      const left = await reporter.close(withinMs);
      if (left > 0) logger.warn({ owed: left }, 'ending while reports of sessions are still unsent');
      agents.close();
    },
  };
}

function refuseEnding(handshake: Handshake): void {
  handshake.refuse('internal_error', 'This gateway is ending; open another session.', 502);
}
