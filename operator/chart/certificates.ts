import type { X509Certificate } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { type Authority, createAuthority, type TlsFiles } from '@semblance/common/grpc/tls/authority';
import { COMPONENTS, type Component, nameOf } from '@semblance/common/grpc/tls/components';
import { authorityOf, certificatesIn, checkMaterial } from '@semblance/common/grpc/tls/material';
import type { KubeClient, KubeObject, ResourceDescriptor } from '@semblance/common/kube/index';
import type { Logger } from '@semblance/common/logging';

const DAY_MS = 86_400_000;
/** A certificate begins so long before it is made, in ms, because clocks differ. */
const EARLIER_MS = 3_600_000;

type Secret = KubeObject & { readonly data?: Readonly<Record<string, string>> };
export const SECRETS: ResourceDescriptor<Secret> = {
  group: '',
  version: 'v1',
  plural: 'secrets',
  kind: 'Secret',
};

export interface RenewOptions {
  readonly client: Pick<KubeClient, 'get' | 'mergePatch'>;
  readonly namespace: string;
  /** Prefix of the names of the Secrets, which the chart makes empty. */
  readonly fullname: string;
  readonly lifetimeMs: number;
  /** Remaining validity below which certificates are renewed, in ms. */
  readonly renewBeforeMs: number;
  /** Time that every service gets to read the authorities in its Secret, in ms. */
  readonly spreadMs: number;
  readonly logger: Logger;
  readonly now?: () => number;
}

/** What the Secret of a component holds. An agent makes its certificate itself: its Secret holds the authorities alone. */
interface Held {
  readonly component: Component;
  readonly secret: Secret;
  readonly authorities: readonly X509Certificate[];
  /** The authority of the certificate; undefined where there is no certificate that can be used. */
  readonly issuer: X509Certificate | undefined;
  readonly notBefore: number;
  readonly notAfter: number;
}

/**
 * Makes the certificates between the services where there are none, and renews those that end soon.
 *
 * Each time there is a new authority, whose key is in the memory of this process alone. Where certificates are in use,
 * every service first gets the new authority beside the former, and the certificates follow `spreadMs` later, so that
 * each is accepted by all at any time. A run that dies half-way leaves certificates that work; the next starts again.
 *
 * @throws KubeError `conflict` when somebody else changes a Secret meanwhile
 */
export async function renewCertificates(options: RenewOptions): Promise<'kept' | 'made' | 'renewed'> {
  const { logger, lifetimeMs, now = Date.now } = options;
  const look = () => Promise.all(COMPONENTS.map((component) => read(options, component, now())));
  let held = await look();
  // Either it ends, or it is dead, and what it gave out grows old.
  for (let said = false; isUnderWay(held, options.spreadMs, now()); held = await look()) {
    if (!said) logger.info('waiting for another run, which is renewing the certificates');
    said = true;
    await delay(options.spreadMs / 10);
  }
  const why = reasonToRenew(held, options, now());
  if (why === undefined) return 'kept';
  const inUse = held.some(({ issuer }) => issuer);
  const authority = await createAuthority(
    { notAfter: new Date(now() + lifetimeMs + DAY_MS), notBefore: new Date(now() - EARLIER_MS) },
    `Semblance ${options.fullname}`,
  );
  const former = held.flatMap(({ issuer }) => (issuer ? [issuer.toString()] : []));
  const authorities = [...new Set([...former, authority.pem.trim()])].join('\n').concat('\n');

  // One after the other in a fixed order, so that of two runs one fails at its first write.
  const spread: Pick<Held, 'component' | 'issuer' | 'secret'>[] = [];
  for (const { component, secret, issuer } of held) {
    // Who has no certificate can wait for nobody.
    const files = issuer || component === 'agent' ? {} : await issue(authority, component, options, now());
    const written = await write(options, secret, { ...files, authority: authorities });
    spread.push({ component, issuer, secret: written });
  }
  if (!inUse) {
    logger.info({ lifetimeMs }, 'made the certificates between the services');
    return 'made';
  }
  logger.info({ why, spreadMs: options.spreadMs }, 'gave every service a new authority beside the former');
  await delay(options.spreadMs);
  for (const { component, issuer, secret } of spread) {
    if (issuer) await write(options, secret, await issue(authority, component, options, now()));
  }
  logger.info({ lifetimeMs }, 'renewed the certificates between the services');
  return 'renewed';
}

async function read(
  { client, namespace, fullname }: RenewOptions,
  component: Component,
  now: number,
): Promise<Held> {
  const secret = await client.get(SECRETS, { namespace, name: `${fullname}-${component}-certificate` });
  const bytes = (name: string) => Buffer.from(secret.data?.[name] ?? '', 'base64');
  const files = { certificate: bytes('tls.crt'), key: bytes('tls.key'), authority: bytes('ca.crt') };
  const none = { component, secret, authorities: [], issuer: undefined, notBefore: 0, notAfter: 0 };
  try {
    const authorities = certificatesIn('ca.crt', files.authority);
    if (component === 'agent') return { ...none, authorities };
    checkMaterial(files, nameOf(component), new Date(now));
    const [leaf, ...between] = certificatesIn('tls.crt', files.certificate) as [X509Certificate];
    const [notBefore, notAfter] = [leaf.validFromDate.getTime(), leaf.validToDate.getTime()];
    return { ...none, authorities, issuer: authorityOf(leaf, between, authorities), notBefore, notAfter };
  } catch {
    // Whatever is wrong with them, such files are of no use to the service and are made again.
    return none;
  }
}

/** Returns why there must be new certificates; undefined: all are good. */
function reasonToRenew(
  held: readonly Held[],
  { lifetimeMs, renewBeforeMs }: RenewOptions,
  now: number,
): string | undefined {
  for (const { component, issuer, notBefore, notAfter } of held) {
    if (component === 'agent') continue;
    if (!issuer) return `${component} has no certificate that can be used`;
    if (notAfter - now < renewBeforeMs)
      return `that of ${component} ends at ${new Date(notAfter).toISOString()}`;
    if (notAfter - notBefore > lifetimeMs + 2 * EARLIER_MS)
      return `that of ${component} lasts longer than it should`;
    const stranger = held.find(({ authorities }) => !authorities.some((each) => each.raw.equals(issuer.raw)));
    if (stranger) return `${stranger.component} does not trust that of ${component}`;
  }
  return undefined;
}

/** Tells whether an authority was given out lately whose certificates are still to come, and none is missing. */
function isUnderWay(held: readonly Held[], spreadMs: number, now: number): boolean {
  if (held.some(({ component, issuer }) => component !== 'agent' && !issuer)) return false;
  const issuers = held.flatMap(({ issuer }) => (issuer ? [issuer.fingerprint256] : []));
  return held
    .flatMap(({ authorities }) => authorities)
    .filter(({ fingerprint256 }) => !issuers.includes(fingerprint256))
    .some(({ validFromDate }) => now - (validFromDate.getTime() + EARLIER_MS) < 2 * spreadMs);
}

function issue(authority: Authority, component: Component, { lifetimeMs }: RenewOptions, now: number) {
  return authority
    .issue({
      names: [nameOf(component)],
      notBefore: new Date(now - EARLIER_MS),
      notAfter: new Date(now + lifetimeMs),
    })
    .then(({ certificate, key }) => ({ certificate, key }));
}

const KEYS = { certificate: 'tls.crt', key: 'tls.key', authority: 'ca.crt' } as const;

/** Writes files into a Secret that nobody has changed since it was read. */
function write(
  { client, namespace }: RenewOptions,
  { metadata: { name = '', resourceVersion } }: Secret,
  files: Partial<TlsFiles>,
): Promise<Secret> {
  const data = Object.fromEntries(
    (Object.keys(files) as (keyof TlsFiles)[]).map((file) => [
      KEYS[file],
      Buffer.from(files[file] ?? '').toString('base64'),
    ]),
  );
  return client.mergePatch(SECRETS, { namespace, name }, { metadata: { resourceVersion }, data });
}
