import { setTimeout as delay } from 'node:timers/promises';
import { createClientLog } from '@semblance/common/client-log';
import type { ListenAddress } from '@semblance/common/config';
import { describeError } from '@semblance/common/errors';
import type { Tls } from '@semblance/common/grpc/tls/tls';
import type { Logger } from '@semblance/common/logging';
import { DirectoryStore } from '@semblance/objects/directory-store';
import type { ObjectStore } from '@semblance/objects/store';
import Koa from 'koa';
import type { Registry } from 'prom-client';
import { type KeylessLimitOptions, limitKeyless } from './auth/keyless-limit.ts';
import { createCallerBeforeBody, createKnownKeys, forgetInvalid } from './auth/known-keys.ts';
import { consoleTokenOf } from './console/cookie.ts';
import { connectControlPlane } from './control/control-plane.ts';
import { createEventStreams, type EventStreamsOptions } from './events/event-streams.ts';
import { SEND_LIMITS, type SendLimits } from './files/send.ts';
import { addressOf } from './http/address.ts';
import { asMiddleware, type GatewayContext } from './http/context.ts';
import { observe } from './http/observe.ts';
import { startHttpServer } from './http/server.ts';
import { createMetrics } from './metrics.ts';
import type { Route } from './openapi/operation.ts';
import { createRouter, routeTable, unknownRoute, withoutLastSlash } from './routes.ts';
import { createLiveStreams, type LiveStreams, type LiveStreamsOptions } from './streams/live-streams.ts';
import { createStreamMetrics } from './streams/stream-metrics.ts';
import { SIZE_LIMITS, type SizeLimits } from './uploads/recognise.ts';
import { createUploadsUnderWay } from './uploads/under-way.ts';
import { createVolumeRoom, freeBytesOf } from './uploads/volume-room.ts';

export interface GatewayOptions {
  readonly listen: ListenAddress;
  /** `host:port` of the control plane. */
  readonly controlAddress: string;
  readonly internalToken?: string | undefined;
  /** Undefined: gRPC is not encrypted. */
  readonly tls?: Tls | undefined;
  readonly store: ObjectStore;
  readonly logger: Logger;
  readonly registry: Registry;
  readonly sizeLimits?: SizeLimits;
  readonly sendLimits?: SendLimits;
  /** Bytes on the volume of the objects that uploads leave to outputs. Default: none. */
  readonly outputReserveBytes?: number;
  readonly eventStreams?: EventStreamsOptions;
  readonly timing?: Partial<GatewayTiming>;
  /** Limit of requests without a valid key. Default: none. */
  readonly keyless?: KeylessLimitOptions;
  /** Serves the pages of the console. Default: false. */
  readonly console?: boolean;
  /** Serves the page to try live sessions with. Default: false. */
  readonly tryPage?: boolean;
  /** Origin at which clients reach it. */
  readonly publicUrl: string;
  readonly liveStreams?: Partial<
    Pick<LiveStreamsOptions, 'clock' | 'pace' | 'tickMs' | 'readyMs' | 'closeMs'>
  >;
}

/** Times in ms. */
export interface GatewayTiming {
  /** Longest wait for the control plane's answer. */
  readonly control: number;
  /** Longest wait for the next bytes of an upload. */
  readonly uploadIdle: number;
  /** Longest time of a whole upload; must be less than the control plane reserves its key for. */
  readonly uploadTotal: number;
  /** Time over which an upload must reach the minimum rate. */
  readonly uploadRateWindow: number;
  /** Longest time for a JSON body to arrive. */
  readonly body: number;
  /** Longest time that a client may read nothing of a requested file. */
  readonly readIdle: number;
  /** Time for which the public rate card is answered again without a question to the control plane. */
  readonly pricingKept: number;
  /** Time for which unwanted bytes are discarded after an early answer. */
  readonly linger: number;
  /** Time for which it serves on after it was asked to end and is no longer ready. */
  readonly serveOn: number;
  /** Time that live sessions have after that; their clients are told. */
  readonly liveDrain: number;
  /** Time for running requests to end at shutdown; uploads have half of it. */
  readonly drain: number;
  /** Time for handlers whose clients are gone to clean up after that. */
  readonly tidy: number;
}

/** Minimum rate of an upload. The slowest mobile networks that work are faster. */
const LEAST_BYTES_PER_SECOND = 4096;

const TIMING: GatewayTiming = {
  control: 5_000,
  uploadIdle: 30_000,
  uploadTotal: 3_600_000,
  uploadRateWindow: 60_000,
  body: 30_000,
  readIdle: 60_000,
  pricingKept: 500,
  linger: 15_000,
  serveOn: 0,
  liveDrain: 0,
  drain: 7_000,
  tidy: 1_500,
};

export interface Gateway {
  readonly port: number;
  /** The routes that it serves. */
  readonly routes: readonly Route[];
  readonly live: Pick<LiveStreams, 'size' | 'reporter' | 'agents'>;
  /** Throws with the reason when the gateway cannot work. */
  ready(): Promise<void>;
  /**
   * Becomes unready, serves on for a while, lets live sessions end, then stops accepting, lets requests end, and
   * cuts the rest.
   */
  close(): Promise<void>;
}

/** Assembles and starts the gateway. The caller closes the object store. */
export async function startGateway(options: GatewayOptions): Promise<Gateway> {
  const { store, logger, sizeLimits = SIZE_LIMITS, outputReserveBytes = 0 } = options;
  const timing = { ...TIMING, ...options.timing };
  const metrics = createMetrics(options.registry);
  const control = connectControlPlane({
    address: options.controlAddress,
    token: options.internalToken,
    tls: options.tls,
    metrics,
    timeoutMs: timing.control,
  });
  const uploadsEnd = new AbortController();
  const handlers = { running: 0 };
  let draining = false;

  const app = new Koa();
  const clientLog = createClientLog(logger);
  app.on('error', (error: NodeJS.ErrnoException, ctx?: Partial<GatewayContext>) =>
    clientLog.warn(
      `response ${error.code}`,
      { err: error, requestId: ctx?.state?.requestId },
      `response failed: ${describeError(error)}`,
    ),
  );
  app.use(observe({ logger, metrics, lingerMs: timing.linger, isDraining: () => draining, handlers }));
  const streams = createEventStreams({ secret: options.internalToken, ...options.eventStreams });
  metrics.eventStreams(() => streams.size);
  const live = createLiveStreams({
    ...options.liveStreams,
    control,
    token: options.internalToken,
    tls: options.tls,
    logger,
    metrics,
    streamMetrics: createStreamMetrics(options.registry),
  });
  const known = createKnownKeys();
  const routes = routeTable({
    callerOf: createCallerBeforeBody(control, known),
    publicUrl: options.publicUrl,
    streams,
    control,
    store,
    logger,
    metrics,
    limits: sizeLimits,
    underWay: createUploadsUnderWay(),
    volume:
      store instanceof DirectoryStore && outputReserveBytes > 0
        ? createVolumeRoom({ reserveBytes: outputReserveBytes, freeBytes: () => freeBytesOf(store.folder) })
        : undefined,
    bodyLimits: {
      idleMs: timing.uploadIdle,
      totalMs: timing.uploadTotal,
      rateWindowMs: timing.uploadRateWindow,
      leastBytesPerSecond: LEAST_BYTES_PER_SECOND,
    },
    bodyTimeoutMs: timing.body,
    readIdleMs: timing.readIdle,
    sendLimits: options.sendLimits ?? SEND_LIMITS,
    pricingKeptMs: timing.pricingKept,
    signal: uploadsEnd.signal,
    tryPage: options.tryPage ?? false,
    console: options.console ?? false,
  });
  const trustedProxies = options.keyless?.trustedProxies ?? 0;
  app.use(
    asMiddleware(async (ctx, next) => {
      ctx.state.address = addressOf(ctx.req, trustedProxies);
      ctx.state.consoleToken = consoleTokenOf(ctx, options.publicUrl);
      await next();
    }),
  );
  if (options.keyless) app.use(asMiddleware(limitKeyless(options.keyless, known)));
  app.use(asMiddleware(forgetInvalid(known)));
  app.use(asMiddleware(withoutLastSlash));
  app.use(createRouter(routes).routes());
  app.use(asMiddleware(unknownRoute));

  const server = await startHttpServer({
    listen: options.listen,
    handler: app.callback(),
    upgrades: live,
    onRefused: (refused) =>
      clientLog.info(`unread ${refused.status} ${refused.reason}`, refused, 'cannot read a request'),
  });
  metrics.connections(server.connections);
  let wasConnected = false;

  return {
    port: server.port,
    routes,
    live,
    async ready() {
      if (draining) throw new Error('the gateway is ending');
      // After the first connection the gateway stays ready: if the control plane fails then, it answers with 502
      // instead of silence.
      if (!wasConnected) await control.connected(2_000);
      wasConnected = true;
    },
    async close() {
      if (draining) return;
      draining = true;
      if (timing.serveOn + timing.liveDrain > 0)
        logger.info({ serveOnMs: timing.serveOn, liveDrainMs: timing.liveDrain }, 'draining');
      if (timing.serveOn > 0) await delay(timing.serveOn);
      if (timing.liveDrain > 0) await live.drain(timing.liveDrain);
      streams.end();
      const end = setTimeout(() => uploadsEnd.abort(new Error('the gateway is ending')), timing.drain / 2);
      // The HTTP server closes only when its sockets are closed.
      await Promise.all([server.close(timing.drain), live.close(timing.drain)]);
      clearTimeout(end);
      const lastMoment = Date.now() + timing.tidy;
      while (handlers.running > 0 && Date.now() < lastMoment) await delay(20);
      control.close();
    },
  };
}
