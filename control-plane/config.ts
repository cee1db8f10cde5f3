import { z } from 'zod';
import { baseShape, kubeShape, listenAddress, objectsShape } from '#common/config.ts';

/** The control plane's settings; see common/config for those it shares. */
export const controlPlaneShape = {
  ...baseShape,
  ...kubeShape,
  ...objectsShape,
  SEMBLANCE_POSTGRES_URL: z.string().regex(/^postgres(ql)?:\/\//, 'must begin with postgres://'),
  SEMBLANCE_NATS_URL: z.string().regex(/^(nats|tls):\/\//, 'must begin with nats:// or tls://'),
  SEMBLANCE_CONTROL_LISTEN: listenAddress.default({ host: '127.0.0.1', port: 0 }),
  SEMBLANCE_ADMIN_TOKEN: z.string().min(16, 'must have at least 16 characters'),
};
