import { createPrivateKey, type KeyObject, X509Certificate } from 'node:crypto';

/** Contents of the three files, in PEM. */
export interface MaterialFiles {
  /** `tls.crt`: the certificate, followed by the intermediate certificates up to the authority. */
  readonly certificate: Buffer;
  /** `tls.key` */
  readonly key: Buffer;
  /** `ca.crt`: the trusted authorities. */
  readonly authority: Buffer;
}

/** A certificate with its key and authorities, checked and fit for use. */
export interface Material extends MaterialFiles {
  /** Expiry time of the certificate. `authorityNotAfter` is that of the authority that issued its chain. */
  readonly notAfter: Date;
  readonly authorityNotAfter: Date;
}

/** Reports a fault of the files. Its message names the file. */
export class MaterialError extends Error {
  override readonly name = 'MaterialError';
  readonly code = 'invalid_certificate';
  readonly retryable = true;
}

/** Purposes that a certificate with an extended key usage must include, since each service may be on either end. */
const PURPOSES = { 'server auth': '1.3.6.1.5.5.7.3.1', 'client auth': '1.3.6.1.5.5.7.3.2' };

/**
 * Checks that the files match each other and are valid at `now` for a name.
 * @param name DNS name that the certificate must be for
 * @throws MaterialError
 */
export function checkMaterial(files: MaterialFiles, name: string, now = new Date()): Material {
  const [leaf, ...between] = certificatesIn('tls.crt', files.certificate);
  const authorities = certificatesIn('ca.crt', files.authority);
  if (!leaf) throw new MaterialError('tls.crt holds no certificate');
  if (authorities.length === 0) throw new MaterialError('ca.crt holds no certificate');
  if (!leaf.checkPrivateKey(keyIn(files.key)))
    throw new MaterialError('tls.key does not belong to the certificate in tls.crt');
  checkTime('tls.crt', leaf, now);
  if (!leaf.checkHost(name, { subject: 'never', wildcards: false })) {
    const named = leaf.subjectAltName ?? 'no name at all';
    throw new MaterialError(`tls.crt is not for DNS:${name}; it is for ${named}`);
  }
  for (const [purpose, id] of Object.entries(PURPOSES)) {
    if (leaf.keyUsage && !leaf.keyUsage.includes(id))
      throw new MaterialError(`tls.crt must not be used for ${purpose}, and it is`);
  }
  const authority = authorityOf(leaf, between, authorities);
  if (!authority) throw new MaterialError('tls.crt was not issued by an authority in ca.crt');
  checkTime('ca.crt', authority, now);
  return { ...files, notAfter: leaf.validToDate, authorityNotAfter: authority.validToDate };
}

/**
 * Checks the authorities of a process that made its certificate itself.
 * @throws MaterialError when none of them is valid at `now`
 */
export function checkAuthorities(files: MaterialFiles, now = new Date()): Material {
  const authorities = certificatesIn('ca.crt', files.authority);
  const [first] = authorities;
  if (!first) throw new MaterialError('ca.crt holds no certificate');
  const valid = authorities.find((each) => now >= each.validFromDate && now <= each.validToDate);
  if (!valid) checkTime('ca.crt', first, now);
  const own = new X509Certificate(files.certificate);
  return { ...files, notAfter: own.validToDate, authorityNotAfter: (valid ?? first).validToDate };
}

function keyIn(pem: Buffer): KeyObject {
  try {
    return createPrivateKey(pem);
  } catch (cause) {
    throw new MaterialError('tls.key holds no private key that can be read', { cause });
  }
}

/** @param file its name, for the error */
export function certificatesIn(file: string, pem: Buffer): X509Certificate[] {
  const text = pem.toString('latin1');
  const blocks = text.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  if (blocks.length !== text.split('-----BEGIN').length - 1)
    throw new MaterialError(`${file} is cut off, or holds something other than certificates`);
  try {
    return blocks.map((block) => new X509Certificate(block));
  } catch (cause) {
    throw new MaterialError(`${file} holds a certificate that cannot be read`, { cause });
  }
}

function checkTime(file: string, { validFromDate, validToDate }: X509Certificate, now: Date): void {
  if (now > validToDate)
    throw new MaterialError(`the certificate in ${file} ended at ${validToDate.toISOString()}`);
  if (now < validFromDate)
    throw new MaterialError(`the certificate in ${file} begins only at ${validFromDate.toISOString()}`);
}

/** Returns the trusted authority at the end of the chain, or undefined if there is none. */
export function authorityOf(
  leaf: X509Certificate,
  between: readonly X509Certificate[],
  authorities: readonly X509Certificate[],
): X509Certificate | undefined {
  let current = leaf;
  const unused = new Set(between);
  for (;;) {
    const issued = (by: X509Certificate) => current.checkIssued(by) && current.verify(by.publicKey);
    const authority = authorities.find(issued);
    if (authority) return authority;
    const next = [...unused].find(issued);
    if (!next) return undefined;
    unused.delete(next);
    current = next;
  }
}
