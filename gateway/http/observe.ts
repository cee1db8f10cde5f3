import { randomUUID } from 'node:crypto';
import type { Middleware } from 'koa';
import { describeError } from '#common/errors.ts';
import type { Logger } from '#common/logging.ts';
import type { GatewayMetrics } from '../metrics.ts';
import type { GatewayContext } from './context.ts';
import { answerError, StatusError, toApiError } from './envelope.ts';
import { awaitsContinue, ClientGoneError, lingerAfter } from './request-body.ts';

const SANE_REQUEST_ID = /^[A-Za-z0-9._-]{1,128}$/;

export interface ObserveOptions {
  readonly logger: Logger;
  readonly metrics: GatewayMetrics;
  /** How long bytes nobody wants are thrown away after an early answer. */
  readonly lingerMs: number;
  /** True while the gateway ends: answers then close their connections. */
  readonly isDraining: () => boolean;
  /** Counts the handlers at work; one may outlive its response, tidying up. */
  readonly handlers: { running: number };
}

/**
 * The outermost middleware: gives the request its id, makes whatever is thrown the error envelope, and when the
 * response has ended writes one log line and counts it. Paths are logged as route templates, so that no key, id or
 * signature ever gets into a log.
 */
export function observe(options: ObserveOptions): Middleware {
  const { logger, metrics, lingerMs, isDraining, handlers } = options;
  // What these lines hold is chosen here, field by field, so there is nothing in them to look for and hide.
  const access = logger.child({}, { redact: [] });
  return async (koaContext, next) => {
    const ctx = koaContext as unknown as GatewayContext;
    const { req, res } = ctx;
    const started = performance.now();
    const presented = req.headers['request-id'];
    const requestId =
      typeof presented === 'string' && SANE_REQUEST_ID.test(presented) ? presented : randomUUID();
    ctx.state.requestId = requestId;
    res.setHeader('Request-Id', requestId);
    metrics.began();
    handlers.running++;
    res.once('close', () => {
      const ms = performance.now() - started;
      const route = routeName(ctx);
      const finished = res.writableFinished;
      const { errorCode } = ctx.state;
      metrics.ended(req.method ?? '', route, finished ? res.statusCode : 499, ms / 1000);
      if (!access.isLevelEnabled('info')) return;
      access.info({
        requestId,
        method: req.method,
        route,
        status: res.statusCode,
        ms: Math.round(ms * 10) / 10,
        ...(errorCode ? { code: errorCode } : undefined),
        ...(finished ? undefined : { aborted: true }),
      });
    });
    try {
      await next();
    } catch (error) {
      if (error instanceof ClientGoneError || (req.destroyed && !req.complete)) {
        ctx.respond = false;
        res.destroy();
        return;
      }
      fail(ctx, error, logger);
    } finally {
      handlers.running--;
    }
    if (isDraining() || awaitsContinue(req)) res.setHeader('Connection', 'close');
    lingerAfter(req, res, lingerMs);
  };
}

function fail(ctx: GatewayContext, error: unknown, logger: Logger): void {
  const apiError = toApiError(error);
  if (apiError.httpStatus >= 500) {
    logger.error(
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

export function routeName(ctx: GatewayContext): string {
  const route = ctx._matchedRoute;
  if (typeof route === 'string') return route;
  return route ? '/files/:key' : 'unknown';
}
