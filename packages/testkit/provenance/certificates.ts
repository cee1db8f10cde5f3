// @peculiar/x509 builds its classes with the metadata of this module.
import 'reflect-metadata';
import { webcrypto } from 'node:crypto';
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsageExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  PemConverter,
  SubjectKeyIdentifierExtension,
  X509CertificateGenerator,
} from '@peculiar/x509';

const ECDSA = (namedCurve: string, hash: string) => ({ name: 'ECDSA', namedCurve, hash });
const KEYS = {
  'P-256': ECDSA('P-256', 'SHA-256'),
  'P-384': ECDSA('P-384', 'SHA-384'),
  'P-521': ECDSA('P-521', 'SHA-512'),
  Ed25519: { name: 'Ed25519' },
  RSA: {
    name: 'RSASSA-PKCS1-v1_5',
    hash: 'SHA-256',
    publicExponent: new Uint8Array([1, 0, 1]),
    modulusLength: 2048,
  },
};
const DAY_MS = 86_400_000;

export interface Wanted {
  readonly key?: keyof typeof KEYS;
  readonly days?: number;
  readonly purpose?: string;
  readonly organization?: string;
  readonly authority?: boolean;
  readonly selfSigned?: boolean;
  /** Whether the key belongs to another certificate. */
  readonly foreignKey?: boolean;
}

export interface MadeCertificate {
  readonly certificate: string;
  readonly key: string;
}

/** Creates an authority that issues valid and invalid certificates. */
export async function certificates() {
  const keysOf = (kind: keyof typeof KEYS) =>
    webcrypto.subtle.generateKey(KEYS[kind], true, ['sign', 'verify']) as Promise<webcrypto.CryptoKeyPair>;
  const keys = await keysOf('P-256');
  const notBefore = new Date(Date.now() - 3 * DAY_MS);
  const notAfter = new Date(Date.now() + DAY_MS);
  const name = 'CN=Authority, O=Test';
  const signingAlgorithm = KEYS['P-256'];
  const certificate = await X509CertificateGenerator.createSelfSigned(
    {
      name,
      keys,
      notBefore,
      notAfter,
      signingAlgorithm,
      extensions: [
        new BasicConstraintsExtension(true, undefined, true),
        new KeyUsagesExtension(KeyUsageFlags.keyCertSign, true),
        await SubjectKeyIdentifierExtension.create(keys.publicKey, false, webcrypto),
      ],
    },
    webcrypto,
  );
  return {
    pem: certificate.toString('pem'),
    async issue(wanted: Wanted): Promise<MadeCertificate> {
      const { days = 1, purpose = '1.3.6.1.5.5.7.3.4', organization = 'Test' } = wanted;
      const own = await keysOf(wanted.key ?? 'P-256');
      const by = wanted.selfSigned ? own : keys;
      const subject = `CN=Signer, O=${organization}`;
      const issued = await X509CertificateGenerator.create(
        {
          subject,
          notBefore,
          signingAlgorithm,
          issuer: wanted.selfSigned ? subject : name,
          notAfter: new Date(Date.now() + days * DAY_MS),
          publicKey: own.publicKey,
          signingKey: by.privateKey,
          extensions: [
            new BasicConstraintsExtension(wanted.authority === true, undefined, true),
            new KeyUsagesExtension(
              wanted.authority ? KeyUsageFlags.keyCertSign : KeyUsageFlags.digitalSignature,
              true,
            ),
            new ExtendedKeyUsageExtension([purpose], true),
            await SubjectKeyIdentifierExtension.create(own.publicKey, false, webcrypto),
            await AuthorityKeyIdentifierExtension.create(by.publicKey, false, webcrypto),
          ],
        },
        webcrypto,
      );
      const { privateKey } = wanted.foreignKey ? await keysOf('P-256') : own;
      return {
        certificate: issued.toString('pem'),
        key: PemConverter.encode(await webcrypto.subtle.exportKey('pkcs8', privateKey), 'PRIVATE KEY'),
      };
    },
  };
}
