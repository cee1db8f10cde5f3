import type { Context, Middleware } from 'koa';

/** Holds what rides with a request through the gateway. */
export interface RequestState {
  requestId: string;
  /** Continues the trace of this request; undefined: it is not traced. */
  traceparent?: string;
  /** Set on the response's way out, for the log line and the metrics. */
  errorCode?: string;
}

export type GatewayContext = Context & {
  state: RequestState;
  /** Set by the router when a path matched. */
  _matchedRoute?: string | RegExp;
  matched?: readonly { readonly methods: readonly string[] }[];
};

export type Handler = (ctx: GatewayContext) => Promise<void>;

/** A handler of ours, as Koa's types want it: Koa itself gives the state no shape. */
export function asMiddleware(handler: Handler): Middleware {
  return handler as unknown as Middleware;
}
