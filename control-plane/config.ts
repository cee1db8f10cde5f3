import { accessSync, constants } from 'node:fs';
import { baseShape, ConfigError, kubeShape, listenAddress, objectsShape } from '@semblance/common/config';
import { voiceShape } from '@semblance/common/voices/load-voices';
import { z } from 'zod';
import { isSafe, type OidcSettings } from './admin-tokens/oidc.ts';
import { isRole, ROLES } from './admin-tokens/roles.ts';
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
  /** Issuer whose ID and access tokens the admin service takes, exactly as they name it. */
  SEMBLANCE_OIDC_ISSUER: z
    .url()
    .refine((text) => isSafe(new URL(text)), 'must be an https URL')
    .optional(),
  /** Audience that these tokens must have: the client's id, or that of an API. */
  SEMBLANCE_OIDC_AUDIENCE: z.string().optional(),
  SEMBLANCE_OIDC_NAME_CLAIM: z.string().default('sub'),
  SEMBLANCE_OIDC_ROLE_CLAIM: z.string().default('groups'),
  /** Values of the role claim, such as `owner=platform-team,read-only=auditors,read-only=finance`. */
  SEMBLANCE_OIDC_ROLES: z
    .string()
    .default('')
    .transform((text) =>
      text
        .split(',')
        .map((pair) => pair.trim())
        .filter(Boolean)
        .map((pair) => /^([a-z-]+)=(.+)$/.exec(pair)?.slice(1) ?? ['', '']),
    )
    .refine(
      (pairs) => pairs.every(([role = '']) => isRole(role)),
      `must be pairs such as owner=VALUE, separated by commas, with the roles ${ROLES.join(', ')}`,
    ),
  /** The bootstrap token of the admin service. */
  SEMBLANCE_ADMIN_TOKEN: z.string().min(16, 'must have at least 16 characters'),
};

type Config = z.infer<z.ZodObject<typeof controlPlaneShape>>;

/** Returns the settings of the issuer, if there is one. @throws ConfigError when they are not complete */
export function oidcOf(config: Config): OidcSettings | undefined {
  const { SEMBLANCE_OIDC_ISSUER: issuer, SEMBLANCE_OIDC_AUDIENCE: audience } = config;
  if (issuer === undefined) return undefined;
  const pairs = config.SEMBLANCE_OIDC_ROLES;
  if (audience === undefined || pairs.length === 0)
    throw new ConfigError('SEMBLANCE_OIDC_ISSUER needs SEMBLANCE_OIDC_AUDIENCE and SEMBLANCE_OIDC_ROLES.');
  const valuesOf = (role: string) => pairs.flatMap(([of, value = '']) => (of === role ? [value] : []));
  return {
    issuer,
    audience,
    nameClaim: config.SEMBLANCE_OIDC_NAME_CLAIM,
    roleClaim: config.SEMBLANCE_OIDC_ROLE_CLAIM,
    roles: Object.fromEntries(ROLES.map((role) => [role, valuesOf(role)])),
  };
}
