import { baseShape, listenAddress, objectsShape } from '@semblance/common/config';
import { z } from 'zod';

const drainSeconds = z.coerce.number().int().min(0).max(86_400);

export const gatewayShape = {
  ...baseShape,
  ...objectsShape,
  SEMBLANCE_OBJECTS_URL: objectsShape.SEMBLANCE_OBJECTS_URL.regex(
    /^(file|s3):/,
    'must be file:/// or s3:// here: the gateway is what serves the objects to services that have http://',
  ),
  /** States where clients are served. */
  SEMBLANCE_GATEWAY_LISTEN: listenAddress.default({ host: '127.0.0.1', port: 8080 }),
  /**
   * Seconds it goes on serving once it was asked to end and is no longer ready, so that load balancers lose it first.
   */
  SEMBLANCE_GATEWAY_DRAIN_SECONDS: drainSeconds.default(0),
  /** Seconds that live sessions, which are told so, are then given. Default: as many, and 30 at most. */
  SEMBLANCE_GATEWAY_LIVE_DRAIN_SECONDS: drainSeconds.optional(),
  /** `on` serves the page to try live sessions with, at `/api/v1/try`. */
  SEMBLANCE_TRY_PAGE: z.enum(['on', 'off']).default('off'),
  /** `host:port` of the control plane's gRPC server. */
  SEMBLANCE_CONTROL_ADDRESS: z.string().regex(/^.+:\d{1,5}$/, 'must be host:port'),
};

/** Milliseconds that the ending of a gateway takes its time for, before what always has a bound. */
export function drainTimes(config: {
  readonly SEMBLANCE_GATEWAY_DRAIN_SECONDS: number;
  readonly SEMBLANCE_GATEWAY_LIVE_DRAIN_SECONDS?: number | undefined;
}): { readonly serve: number; readonly live: number } {
  const serve = config.SEMBLANCE_GATEWAY_DRAIN_SECONDS;
  return {
    serve: serve * 1_000,
    live: (config.SEMBLANCE_GATEWAY_LIVE_DRAIN_SECONDS ?? Math.min(serve, 30)) * 1_000,
  };
}
