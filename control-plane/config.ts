import { z } from 'zod';
import { baseShape, kubeShape, listenAddress, objectsShape } from '#common/config.ts';
import { voiceShape } from '#common/voices/load-voices.ts';
import { isRange } from './webhooks/addresses.ts';

/** The control plane's settings; see common/config for those it shares. */
export const controlPlaneShape = {
  ...baseShape,
  ...kubeShape,
  ...objectsShape,
  ...voiceShape,
  SEMBLANCE_POSTGRES_URL: z.string().regex(/^postgres(ql)?:\/\//, 'must begin with postgres://'),
  SEMBLANCE_NATS_URL: z.string().regex(/^(nats|tls):\/\//, 'must begin with nats:// or tls://'),
  SEMBLANCE_CONTROL_LISTEN: listenAddress.default({ host: '127.0.0.1', port: 0 }),
  /** Addresses webhooks may go to although they are not public: ranges such as `127.0.0.0/8,::1/128`. */
  SEMBLANCE_WEBHOOK_ALLOW: z
    .string()
    .default('')
    .transform((text) =>
      text
        .split(',')
        .map((range) => range.trim())
        .filter(Boolean),
    )
    .refine((ranges) => ranges.every(isRange), 'must be address ranges, separated by commas'),
  SEMBLANCE_ADMIN_TOKEN: z.string().min(16, 'must have at least 16 characters'),
};
