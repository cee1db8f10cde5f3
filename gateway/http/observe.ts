import { randomUUID } from 'node:crypto';
import { type ClientLog, createClientLog } from '@semblance/common/client-log';
import { ApiError, describeError } from '@semblance/common/errors';
import type { Logger } from '@semblance/common/logging';
import { joinTrace, TRACEPARENT, TRACESTATE } from '@semblance/common/tracing/traceparent';
import { type Span, tracer } from '@semblance/common/tracing/tracing';
import type { Middleware } from 'koa';
import type { GatewayMetrics } from '../metrics.ts';
import type { GatewayContext } from './context.ts';
import { answerError, StatusError, toApiError } from './envelope.ts';
import { requireShortQuery } from './query.ts';
import { awaitsContinue, ClientGoneError, lingerAfter } from './request-body.ts';

export const SANE_REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/;

export interface ObserveOptions {
  readonly logger: Logger;
  readonly metrics: GatewayMetrics;
  /** Time for which unwanted bytes are discarded after an early answer, in ms. */
  readonly lingerMs: number;
  /** True while the gateway ends: its answers then close their connections. */
  readonly isDraining: () => boolean;
  /** Counts running handlers; one may outlive its response while it cleans up. */
  readonly handlers: { running: number };
}

/**
 * Creates the outermost middleware. It gives the request its id, converts thrown errors into the error envelope,
 * and writes one log line and the metrics when the response has ended; of requests that no key's limit bounds, a sample
 * (client-log.ts). Paths are logged as route templates, so no
 * key, id or signature ever reaches a log.
 */
export function observe(options: ObserveOptions): Middleware {
  const { logger, metrics, lingerMs, isDraining, handlers } = options;
  // These lines have a fixed set of safe fields, so no redaction is needed.
  const access = logger.child({}, { redact: [] });
  const refused = createClientLog(access);
  const failed = createClientLog(logger);
  return async (koaContext, next) => {
    const ctx = koaContext as unknown as GatewayContext;
    const { req, res } = ctx;
    const started = performance.now();
    const presented = req.headers['request-id'];
    const requestId =
      typeof presented === 'string' && SANE_REQUEST_ID.test(presented) ? presented : randomUUID();
    ctx.state.requestId = requestId;
    const span = tracer && beginSpan(ctx);
    res.setHeader('Request-Id', requestId);
    // Browsers take no answer for something that its type does not say.
    res.setHeader('X-Content-Type-Options', 'nosniff');
    metrics.began();
    handlers.running++;
    res.once('close', () => {
      const ms = performance.now() - started;
      const route = routeName(ctx);
      const finished = res.writableFinished;
      const { errorCode } = ctx.state;
      metrics.ended(req.method ?? '', route, finished ? res.statusCode : 499, ms / 1000);
      if (span) endSpan(span, ctx, route, finished);
      if (!access.isLevelEnabled('info')) return;
      const line = {
        requestId,
        method: req.method,
        route,
        status: res.statusCode,
        ms: Math.round(ms * 10) / 10,
        ...(errorCode ? { code: errorCode } : undefined),
        ...(span ? { traceId: span.traceId } : undefined),
        ...(finished ? undefined : { aborted: true }),
      };
      // The limit of a key bounds what it is admitted for, and nothing bounds all else.
      const isCounted = finished && res.statusCode < 400 && res.hasHeader('RateLimit-Limit');
      if (isCounted) access.info(line);
      else refused.info(`${req.method} ${route} ${finished ? res.statusCode : 'aborted'} ${errorCode}`, line);
    });
    try {
      requirePath(ctx);
      requireShortQuery(ctx);
      await next();
    } catch (error) {
      if (error instanceof ClientGoneError || (req.destroyed && !req.complete)) {
        ctx.respond = false;
        res.destroy();
        return;
      }
      fail(ctx, error, failed);
    } finally {
      handlers.running--;
    }
    if (!res.headersSent && (isDraining() || awaitsContinue(req))) res.setHeader('Connection', 'close');
    lingerAfter(req, res, lingerMs);
  };
}

/**
 * Refuses a target in absolute form with an invalid URL, because reading Koa's path would throw.
 * @throws ApiError invalid_input
 */
function requirePath(ctx: GatewayContext): void {
  try {
    if (ctx.path) return;
  } catch {
    // Refused below, like a target without a path.
  }
  throw new ApiError('invalid_input', 'The target of the request is not a valid URL.');
}

function beginSpan(ctx: GatewayContext): Span | undefined {
  const { headers, method = '' } = ctx.req;
  const span = tracer?.start(method, {
    kind: 'server',
    parent: joinTrace(headers[TRACEPARENT], headers[TRACESTATE]),
    attributes: { 'http.request.method': method, 'semblance.request_id': ctx.state.requestId },
  });
  if (span) ctx.state.traceparent = span.traceparent;
  return span;
}

/** The span is named by the route, which only the router knows; the path may contain keys and signatures. */
function endSpan(span: Span, ctx: GatewayContext, route: string, finished: boolean): void {
  const status = ctx.res.statusCode;
  span.rename(`${ctx.req.method} ${route}`);
  const { errorCode } = ctx.state;
  span.set({
    'http.route': route,
    'http.response.status_code': status,
    ...(errorCode ? { 'error.type': errorCode } : {}),
  });
  if (finished) span.end(status >= 500 ? new Error(`answered ${status}`) : undefined);
  else span.end(new Error('the client went away'));
}

function fail(ctx: GatewayContext, error: unknown, log: ClientLog): void {
  const apiError = toApiError(error);
  // A missing slot is no failure of a service; the line of the request has its code.
  if (apiError.httpStatus >= 500 && !apiError.code.startsWith('capacity_')) {
    log.error(
      `${ctx.method} ${routeName(ctx)} ${apiError.code}`,
      { err: error, requestId: ctx.state.requestId, route: routeName(ctx) },
      `request failed: ${describeError(error)}`,
    );
  }
  if (ctx.headerSent) {
    ctx.respond = false;
    ctx.res.destroy();
    return;
  }
  answerError(ctx, apiError, apiError instanceof StatusError ? apiError.status : undefined);
}

function routeName(ctx: GatewayContext): string {
  const route = ctx._matchedRoute;
  if (typeof route === 'string') return route;
  return route ? '/files/:key' : 'unknown';
}
