import { isAbsolute } from 'node:path';
import { z } from 'zod';

/**
 * Reports unusable settings. `loadConfig` reads a service's settings from the environment, once, at the start. It
 * validates every variable and reports all faults together, by name, without their values (some are secrets).
 */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  readonly code = 'invalid_config';
  readonly retryable = false;
}

export function loadConfig<T extends z.ZodRawShape>(
  shape: T,
  env: NodeJS.ProcessEnv = process.env,
): z.infer<z.ZodObject<T>> {
  const present = Object.fromEntries(
    Object.entries(env).filter(([, value]) => value !== undefined && value !== ''),
  );
  const result = z.object(shape).safeParse(present);
  if (result.success) return result.data;
  const faults = result.error.issues.map((issue) => `  ${issue.path.join('.')}: ${issue.message}`);
  throw new ConfigError(`The environment is not usable:\n${faults.join('\n')}`);
}

/** Parses a `host:port` to listen on. Port 0 takes a free port. */
export const listenAddress = z
  .string()
  .regex(/^.+:\d{1,5}$/, 'must be host:port')
  .transform((text) => {
    const at = text.lastIndexOf(':');
    return { host: text.slice(0, at).replace(/^\[|\]$/g, ''), port: Number(text.slice(at + 1)) };
  })
  .refine(({ port }) => port <= 65_535, 'the port is at most 65535');

export type ListenAddress = z.output<typeof listenAddress>;

/** Parses an origin such as `http://127.0.0.1:8080`, without a path or a trailing slash. */
export const origin = z
  .url({ protocol: /^https?$/ })
  .transform((text) => new URL(text))
  .refine((url) => url.pathname === '/' && !url.search && !url.hash, 'must be an origin, without a path')
  .transform((url) => url.origin);

/** Parses a secret of at least 16 bytes in hexadecimal. */
export const hexSecret = z
  .string()
  .regex(/^([0-9a-fA-F]{2}){16,}$/, 'must be at least 16 bytes in hexadecimal')
  .transform((text) => Buffer.from(text, 'hex'));

/** Settings of every service. */
export const baseShape = {
  /**
   * Token that all services of an installation share and that their gRPC servers demand. Unset: anyone who reaches
   * such a server may call it, so the network must let nobody else reach it.
   */
  SEMBLANCE_INTERNAL_TOKEN: z.string().min(16, 'must have at least 16 characters').optional(),
  /**
   * Absolute path of a folder with `tls.crt`, `tls.key` and `ca.crt`, as a Secret of type kubernetes.io/tls is
   * mounted. Set: gRPC between the services uses mutual TLS. Unset: gRPC is not encrypted.
   */
  SEMBLANCE_TLS_DIR: z.string().refine(isAbsolute, 'must be an absolute path').optional(),
  /**
   * `true`: the network encrypts by itself. SEMBLANCE_INTERNAL_TOKEN is then sent to other machines without
   * SEMBLANCE_TLS_DIR; otherwise such calls fail.
   */
  SEMBLANCE_TLS_BY_NETWORK: z.enum(['true', 'false']).optional(),
  SEMBLANCE_LOG_LEVEL: z.enum(['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent']).default('info'),
  SEMBLANCE_HEALTH_LISTEN: listenAddress.default({ host: '127.0.0.1', port: 0 }),
};

/** Settings of a service that uses the Kubernetes API. Without KUBECONFIG: the Pod's service account. */
export const kubeShape = {
  KUBECONFIG: z.string().optional(),
  SEMBLANCE_NAMESPACE: z
    .string()
    .regex(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/, 'must be a namespace name')
    .default('semblance'),
};

/** Settings of a service that signs links to the object store, or reads and writes it. */
export const objectsShape = {
  /**
   * URL of the object store: `file:///absolute/folder`, `http://host:port` of the gateway that has that folder (not
   * for the gateway itself), or `s3://bucket?region=…&endpoint=…&forcePathStyle=true`.
   */
  SEMBLANCE_OBJECTS_URL: z
    .string()
    .regex(/^(file:\/\/\/|https?:\/\/|s3:\/\/)/, 'must begin with file:///, http:// or s3://'),
  /** Key that signs links of the directory store, the same in all services. It is not used with S3. */
  SEMBLANCE_OBJECTS_SIGNING_KEY: hexSecret.optional(),
  /** Origin at which clients reach the gateway. */
  SEMBLANCE_PUBLIC_URL: origin,
  /** Origin at which agents reach the gateway's file routes. */
  SEMBLANCE_OBJECTS_INTERNAL_URL: origin.optional(),
};
