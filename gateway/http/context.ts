import type { Scope } from '@semblance/common/scopes';
import type { Context, Middleware } from 'koa';

/** State of a request in the gateway. */
export interface RequestState {
  requestId: string;
  /** Continues the trace of this request; undefined when it is not traced. */
  traceparent?: string;
  /** Address of the caller; undefined: nobody knows. */
  address?: string | undefined;
  /** What the route of the request needs of a key; undefined before a route is found, and where it needs none. */
  scope?: Scope | undefined;
  /** Token of the session of the console that the request may use; undefined: there is none. */
  consoleToken?: string | undefined;
  /** Set with the response, for the log line and the metrics. */
  errorCode?: string;
}

export type GatewayContext = Context & {
  state: RequestState;
  /** Set by the router when a path matched. */
  _matchedRoute?: string | RegExp;
  matched?: readonly { readonly methods: readonly string[] }[];
};

export type Handler = (ctx: GatewayContext, next: () => Promise<unknown>) => Promise<void>;

/** Casts a handler to Koa's type, because Koa's state has no type. */
export function asMiddleware(handler: Handler): Middleware {
  return handler as unknown as Middleware;
}
