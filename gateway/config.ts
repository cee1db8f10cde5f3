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
  /** Address at which clients are served. */
  SEMBLANCE_GATEWAY_LISTEN: listenAddress.default({ host: '127.0.0.1', port: 8080 }),
  /**
   * Seconds for which the gateway serves on after it was asked to end and is no longer ready, so that load
   * balancers stop using it first.
   */
  SEMBLANCE_GATEWAY_DRAIN_SECONDS: drainSeconds.default(0),
  /**
   * Seconds that live sessions then have to end; their clients are told. Default: the same as above, but at most
   * 30.
   */
  SEMBLANCE_GATEWAY_LIVE_DRAIN_SECONDS: drainSeconds.optional(),
  /** Refused requests without a valid key that one network may send in a minute; 0: any number. */
  SEMBLANCE_GATEWAY_KEYLESS_PER_MINUTE: z.coerce.number().int().min(0).max(1_000_000).default(600),
  /** Proxies before the gateway that add to `X-Forwarded-For` who called them. */
  SEMBLANCE_GATEWAY_TRUSTED_PROXIES: z.coerce.number().int().min(0).max(10).default(0),
  /** Megabytes on the volume of a folder store that uploads leave to the outputs of jobs; 0: none. */
  SEMBLANCE_GATEWAY_OUTPUT_RESERVE_MB: z.coerce.number().int().min(0).max(1_000_000_000).default(1_000),
  /** `off` serves no pages of the console, at `/console`. Its API stays. */
  SEMBLANCE_CONSOLE: z.enum(['on', 'off']).default('on'),
  /** `on` serves the page to try live sessions with, at `/api/v1/try`. */
  SEMBLANCE_TRY_PAGE: z.enum(['on', 'off']).default('off'),
  /** `host:port` of the control plane's gRPC server. */
  SEMBLANCE_CONTROL_ADDRESS: z.string().regex(/^.+:\d{1,5}$/, 'must be host:port'),
};

/** Returns the phases of a gateway's end in ms, without those that always have a limit. */
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
