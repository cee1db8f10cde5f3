import { accessSync, constants } from 'node:fs';
import { baseShape, kubeShape, listenAddress, objectsShape } from '@semblance/common/config';
import { voiceShape } from '@semblance/common/voices/load-voices';
import { z } from 'zod';
import { isRange } from './webhooks/addresses.ts';

function isReadable(file: string): boolean {
  try {
    accessSync(file, constants.R_OK);
    return true;
  } catch {
    return false;
  }
}

/** The client reads these files at each connection, where a fault in them would look like one of the server. */
function namesReadableFiles(url: string): boolean {
  const asked = URL.parse(url)?.searchParams;
  return ['sslrootcert', 'sslcert', 'sslkey'].every((name) => {
    const file = asked?.get(name);
    return !file || isReadable(file);
  });
}

const addressRanges = z
  .string()
  .default('')
  .transform((text) =>
    text
      .split(',')
      .map((range) => range.trim())
      .filter(Boolean),
  )
  .refine((ranges) => ranges.every(isRange), 'must be address ranges, separated by commas');

/** The control plane's settings; common/config has the shared ones. */
export const controlPlaneShape = {
  ...baseShape,
  ...kubeShape,
  ...objectsShape,
  ...voiceShape,
  /** With TLS: `?sslmode=verify-full&sslrootcert=/path/of/ca.crt`. */
  SEMBLANCE_POSTGRES_URL: z
    .string()
    .regex(/^postgres(ql)?:\/\//, 'must begin with postgres://')
    .refine(namesReadableFiles, 'names a certificate or key that cannot be read'),
  SEMBLANCE_NATS_URL: z.string().regex(/^(nats|tls):\/\//, 'must begin with nats:// or tls://'),
  /** PEM of the authorities of the NATS server's certificate; when set, there is no connection without TLS. */
  SEMBLANCE_NATS_CA: z.string().refine(isReadable, 'is no file that can be read').optional(),
  SEMBLANCE_CONTROL_LISTEN: listenAddress.default({ host: '127.0.0.1', port: 0 }),
  /** Non-public addresses to which webhooks may go: ranges such as `127.0.0.0/8,::1/128`. */
  SEMBLANCE_WEBHOOK_ALLOW: addressRanges,
  /** Addresses to which no webhook may go, such as the ranges of the cluster's Pods and Services. */
  SEMBLANCE_WEBHOOK_DENY: addressRanges,
  SEMBLANCE_ADMIN_TOKEN: z.string().min(16, 'must have at least 16 characters'),
};
