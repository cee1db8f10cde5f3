// @peculiar/x509 builds its classes with the metadata of this module.
import 'reflect-metadata';
import {
  constants,
  createPrivateKey,
  type KeyObject,
  X509Certificate as NodeCertificate,
  sign,
} from 'node:crypto';
import { readFile, stat } from 'node:fs/promises';
import { X509Certificate } from '@peculiar/x509';
import type { Signer as CoseSigner } from '@trustnxt/c2pa-ts/cose';

/** The certificate or the key cannot sign manifests. */
export class SigningCredentialError extends Error {
  override readonly name = 'SigningCredentialError';
  readonly code = 'signing_credential_unusable';
  /** True, because an operator may replace the files. */
  readonly retryable = true;
}

export interface Credential {
  readonly cose: CoseSigner;
  /** Name that a reader shows: the organisation, else the common name. */
  readonly signedBy: string;
  readonly notAfter: Date;
}

export interface SignerFiles {
  /** PEM file: the signing certificate, then its issuers. */
  readonly certificateFile: string;
  /** PEM file: the private key, unencrypted. */
  readonly keyFile: string;
}

export interface Signer {
  /**
   * Returns the credential. It reads the files again after a change, so a renewed certificate needs no restart.
   * @throws SigningCredentialError when the present files cannot sign
   */
  current(): Promise<Credential>;
}

/** COSE numbers of the algorithms that C2PA allows. */
const COSE = { ES256: -7, ES384: -35, ES512: -36, EdDSA: -8, PS256: -37 } as const;
const CURVES: Readonly<Record<string, readonly [number, string]>> = {
  prime256v1: [COSE.ES256, 'sha256'],
  secp384r1: [COSE.ES384, 'sha384'],
  secp521r1: [COSE.ES512, 'sha512'],
};
/** Extended key usages that a signing certificate may have: e-mail protection, document signing, claim signing. */
const PURPOSES = ['1.3.6.1.5.5.7.3.4', '1.3.6.1.5.5.7.3.36', '1.3.6.1.4.1.62558.2.1'];

export function createSigner(files: SignerFiles): Signer {
  let held: { seen: string; credential: Credential } | undefined;
  return {
    async current() {
      const seen = await versionOf(files);
      if (held?.seen !== seen) held = { seen, credential: await load(files) };
      const { credential } = held;
      const now = Date.now();
      if (now > credential.notAfter.getTime()) {
        fail(`the certificate expired at ${credential.notAfter.toISOString()}`);
      }
      return credential;
    },
  };
}

async function versionOf(files: SignerFiles): Promise<string> {
  try {
    const stats = await Promise.all([stat(files.certificateFile), stat(files.keyFile)]);
    return stats.map(({ mtimeMs, ino, size }) => `${mtimeMs} ${ino} ${size}`).join();
  } catch (cause) {
    fail(`cannot read the certificate or its key: ${(cause as Error).message}`, cause);
  }
}

async function load({ certificateFile, keyFile }: SignerFiles): Promise<Credential> {
  const [pem, keyPem] = await Promise.all([readFile(certificateFile, 'utf8'), readFile(keyFile)]);
  const texts = pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  let chain: NodeCertificate[];
  let key: KeyObject;
  try {
    chain = texts.map((text) => new NodeCertificate(text));
    key = createPrivateKey(keyPem);
  } catch (cause) {
    fail(`the certificate or its key is damaged: ${(cause as Error).message}`, cause);
  }
  const [leaf, ...issuers] = chain;
  if (!leaf) fail(`${certificateFile} holds no certificate`);
  if (!leaf.checkPrivateKey(key)) fail('the key is not that of the first certificate');
  if (leaf.ca) fail('the first certificate is one of an authority');
  if (leaf.verify(leaf.publicKey)) fail('the certificate is signed by itself; readers refuse such');
  if (Date.now() < leaf.validFromDate.getTime()) fail(`the certificate is valid from ${leaf.validFrom} on`);
  const purposes = leaf.keyUsage ?? [];
  if (!purposes.some((purpose) => PURPOSES.includes(purpose))) {
    fail(`the certificate must be for one of the purposes ${PURPOSES.join(', ')}`);
  }
  const [algorithm, signBytes] = algorithmOf(key);
  const encoded = (certificate: NodeCertificate) => new X509Certificate(new Uint8Array(certificate.raw));
  return {
    cose: {
      algorithm,
      certificate: encoded(leaf),
      // Readers have the roots that they trust, so the root is not sent.
      chainCertificates: issuers.filter((issuer) => !issuer.verify(issuer.publicKey)).map(encoded),
      sign: async (payload) => new Uint8Array(signBytes(payload)),
    },
    signedBy: /^O=(.+)$/m.exec(leaf.subject)?.[1] ?? /^CN=(.+)$/m.exec(leaf.subject)?.[1] ?? 'unnamed',
    notAfter: leaf.validToDate,
  };
}

function algorithmOf(key: KeyObject): [number, (payload: Uint8Array) => Buffer] {
  const { asymmetricKeyType: type, asymmetricKeyDetails: details } = key;
  if (type === 'ed25519') return [COSE.EdDSA, (payload) => sign(null, payload, key)];
  const curve = type === 'ec' && CURVES[details?.namedCurve ?? ''];
  if (curve) {
    const [algorithm, digest] = curve;
    return [algorithm, (payload) => sign(digest, payload, { key, dsaEncoding: 'ieee-p1363' })];
  }
  if ((type === 'rsa' || type === 'rsa-pss') && (details?.modulusLength ?? 0) >= 2048) {
    const options = { key, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: 32 };
    return [COSE.PS256, (payload) => sign('sha256', payload, options)];
  }
  fail('the key must be of EC (P-256, P-384, P-521), Ed25519 or RSA with 2048 bits or more');
}

function fail(message: string, cause?: unknown): never {
  throw new SigningCredentialError(message, { cause });
}
