import { z } from 'zod';
import { baseShape, listenAddress, objectsShape } from '#common/config.ts';

export const gatewayShape = {
  ...baseShape,
  ...objectsShape,
  SEMBLANCE_OBJECTS_URL: objectsShape.SEMBLANCE_OBJECTS_URL.regex(
    /^(file|s3):/,
    'must be file:/// or s3:// here: the gateway is what serves the objects to services that have http://',
  ),
  /** Where clients are served. */
  SEMBLANCE_GATEWAY_LISTEN: listenAddress.default({ host: '127.0.0.1', port: 8080 }),
  /** `on` serves the page to try live sessions with, at `/api/v1/try`. */
  SEMBLANCE_TRY_PAGE: z.enum(['on', 'off']).default('off'),
  /** `host:port` of the control plane's gRPC server. */
  SEMBLANCE_CONTROL_ADDRESS: z.string().regex(/^.+:\d{1,5}$/, 'must be host:port'),
};
