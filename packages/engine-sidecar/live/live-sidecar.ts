import { randomUUID } from 'node:crypto';
import { dirname } from 'node:path';
import { connectivityState, credentials } from '@grpc/grpc-js';
import { createBackoff } from '@semblance/common/async/backoff';
import { describeError } from '@semblance/common/errors';
import { call } from '@semblance/common/grpc/client';
import type { Logger } from '@semblance/common/logging';
import { EngineInterruptedError } from '@semblance/engine-api/engine';
import type { LiveCapability } from '@semblance/engine-api/live-engine';
import { LiveEngineServiceClient } from '@semblance/proto/semblance/engine/live/v1/live_engine';
import { channelOptions } from '../connection.ts';
import { createExchange } from '../exchange.ts';
import { createLink, type LinkTimes } from '../link.ts';
import { checkedLiveInfo, type LiveSidecarInfo } from './live-answers.ts';
import type { LiveCall } from './live-call.ts';
import { type OpenSession, openSession, type SessionTimes, type SidecarSession } from './open-session.ts';
import { isInMemory } from './shared-pictures.ts';

/** Folder of live sessions beside the socket. */
const FOLDER = 'live';
/** Room of a message beside its picture, in bytes. */
const BESIDE_BYTES = 64 * 1024;
const WARM_UP_MS = 3_600_000;

export interface LiveSidecarTimes extends LinkTimes, SessionTimes {
  /** Longest pause before a sidecar with a fault is asked again, in ms. */
  readonly retryMs: number;
}

const LIVE_SIDECAR_TIMES: LiveSidecarTimes = {
  healthEveryMs: 1_000,
  deadAfterMs: 15_000,
  hungMs: 10_000,
  endMs: 2_000,
  openMs: 8_000,
  retryMs: 30_000,
};

export interface LiveSidecarOptions {
  readonly socket: string;
  readonly capability: LiveCapability;
  /** Largest picture that clients may send. */
  readonly most: { readonly side: number; readonly pixels: number; readonly bytes: number };
  readonly logger: Logger;
  /** Called when `info` or `slots` changed. */
  readonly onChange: () => void;
  /** Called when a sidecar that was warm is lost. */
  readonly onLost: () => void;
  readonly times?: Partial<LiveSidecarTimes>;
}

/** A program with live sessions behind a socket. It is waited for, and again whenever it is lost. */
export interface LiveSidecar {
  /** Undefined while the sidecar is not warm. */
  readonly info: LiveSidecarInfo | undefined;
  /** Sessions that it can hold now, with those that it holds. */
  readonly slots: number;
  /** Resolves when it is warm for the first time. @throws the signal's reason */
  warmUp(signal: AbortSignal): Promise<void>;
  /** @throws LiveRefusal, ContractError, EngineInterruptedError, the signal's reason */
  open(session: OpenSession): Promise<SidecarSession>;
  /** Fails the open sessions. */
  close(): Promise<void>;
}

export function createLiveSidecar(options: LiveSidecarOptions): LiveSidecar {
  const { socket, capability, most, logger, onChange, onLost } = options;
  const times = { ...LIVE_SIDECAR_TIMES, ...options.times };
  const client = new LiveEngineServiceClient(
    `unix:${socket}`,
    credentials.createInsecure(),
    channelOptions(most.bytes + BESIDE_BYTES),
  );
  const exchange = createExchange(socket, FOLDER);
  const closing = new AbortController();
  const held = new Map<string, LiveCall | undefined>();
  const firstWarm = Promise.withResolvers<void>();
  let info: LiveSidecarInfo | undefined;
  let serving = false;
  /** Sessions that it holds although nobody here does, as of the last two answers of Health. */
  let strangers: readonly string[] = [];
  let seenStrangers: readonly string[] = [];
  let running: Promise<void> | undefined;

  function heard(answer: { readonly serving: boolean; readonly running: readonly string[] }): undefined {
    const before = slots();
    serving = answer.serving;
    const others = answer.running.filter((id) => !held.has(id));
    // One that has just ended may still be in an answer that was on its way.
    strangers = others.filter((id) => seenStrangers.includes(id));
    seenStrangers = others;
    if (slots() !== before) onChange();
  }
  const slots = () => (info && serving ? Math.max(0, info.slots - strangers.length) : 0);
  const link = createLink(socket, times, {
    async getInfo(signal) {
      const said = await call(client.getInfo.bind(client), {}, { timeoutMs: 5_000, signal });
      const sharesMemory = await isInMemory(dirname(socket));
      return checkedLiveInfo(said, capability, { most, sharesMemory });
    },
    async warmUp(signal) {
      await call(client.warmUp.bind(client), {}, { timeoutMs: WARM_UP_MS, signal });
    },
    async health(timeoutMs = 2_000) {
      const answer = await call(client.health.bind(client), {}, { timeoutMs });
      return { serving: answer.serving, running: answer.sessions };
    },
    faultOf: heard,
    dropped: () =>
      new Promise((resolve) => {
        const cut = () => resolve('its connection is cut');
        client.getChannel().watchConnectivityState(connectivityState.READY, Number.POSITIVE_INFINITY, cut);
      }),
    say: (line) => logger.warn(line),
  });

  async function keepUp(signal: AbortSignal): Promise<void> {
    const backoff = createBackoff({ baseMs: 500, maxMs: times.retryMs });
    while (!signal.aborted) {
      try {
        const warm = await link.warm(signal);
        await exchange.clear();
        [info, serving, strangers, seenStrangers] = [warm, true, [], []];
        logger.info(
          { socket, engine: `${warm.name} ${warm.version}` },
          'the sidecar of live sessions is warm',
        );
        backoff.reset();
        firstWarm.resolve();
        onChange();
        const reason = await link.lost(signal);
        if (reason === undefined || signal.aborted) return;
        lose(reason);
      } catch (error) {
        if (signal.aborted) return;
        logger.error(
          { err: error, socket },
          `cannot use the sidecar of live sessions: ${describeError(error)}`,
        );
        await backoff.wait(signal);
      }
    }
  }

  function lose(reason: string): void {
    info = undefined;
    logger.warn({ socket, sessions: held.size }, `the sidecar of live sessions is lost: ${reason}`);
    onLost();
    onChange();
    for (const each of held.values()) each?.fail(new EngineInterruptedError(reason));
  }

  async function open(session: OpenSession): Promise<SidecarSession> {
    const warm = info;
    if (!warm) throw new EngineInterruptedError('the sidecar is not warm');
    const sessionId = randomUUID();
    held.set(sessionId, undefined);
    return openSession(sessionId, session, {
      client,
      exchange,
      folder: dirname(socket),
      info: warm,
      mostPixels: most.pixels,
      times,
      closing: closing.signal,
      onBegun(begun) {
        held.set(sessionId, begun);
        // It was lost while the session was opened.
        if (info !== warm) begun.fail(new EngineInterruptedError('the sidecar is lost'));
      },
      onEnd: () => held.delete(sessionId),
    });
  }

  return {
    get info() {
      return info;
    },
    get slots() {
      return slots();
    },
    async warmUp(signal) {
      signal.throwIfAborted();
      signal.addEventListener('abort', () => firstWarm.reject(signal.reason), { once: true });
      running ??= keepUp(closing.signal);
      await firstWarm.promise;
    },
    open,
    async close() {
      const error = new EngineInterruptedError('the connection to the sidecar was closed');
      closing.abort(error);
      for (const each of held.values()) each?.fail(error);
      client.close();
      await running;
      await exchange.clear();
    },
  };
}
