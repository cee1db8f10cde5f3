// @peculiar/x509 needs it for its classes.
import 'reflect-metadata';
import { webcrypto } from 'node:crypto';
import { isIP } from 'node:net';
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsageExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509CertificateGenerator,
} from '@peculiar/x509';
import { KEY, newKeys, privatePem, serial } from './keys.ts';

const DAY_MS = 86_400_000;
const PURPOSES = { server: '1.3.6.1.5.5.7.3.1', client: '1.3.6.1.5.5.7.3.2' };

export interface CertificateOrder {
  /** DNS names and IP addresses of the certificate. */
  readonly names: readonly string[];
  /** Default: an hour ago, because clocks differ. */
  readonly notBefore?: Date;
  /** Default: in ten years. */
  readonly notAfter?: Date;
  /** Default: both. */
  readonly purposes?: readonly (keyof typeof PURPOSES)[];
}

/** PEM texts, as in the files of a Secret of type kubernetes.io/tls. */
export interface TlsFiles {
  readonly certificate: string;
  readonly key: string;
  readonly authority: string;
}

export interface Authority {
  /** PEM of the authority's own certificate. */
  readonly pem: string;
  issue(order: CertificateOrder): Promise<TlsFiles>;
}

/**
 * Creates an authority whose key exists only in memory.
 * @param owner organisation in its name
 */
export async function createAuthority(
  order: Pick<CertificateOrder, 'notBefore' | 'notAfter'> = {},
  owner = 'Semblance local stack',
): Promise<Authority> {
  const keys = await newKeys();
  const serialNumber = serial();
  // Each has its own name, so that a file with several tells at once which one issued a certificate.
  const name = `CN=Semblance services ${serialNumber.slice(0, 12)}, O=${owner}`;
  const own = await X509CertificateGenerator.createSelfSigned(
    {
      serialNumber,
      name,
      keys,
      signingAlgorithm: KEY,
      ...validity(order),
      extensions: [
        new BasicConstraintsExtension(true, 0, true),
        new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign, true),
        await SubjectKeyIdentifierExtension.create(keys.publicKey, false, webcrypto),
      ],
    },
    webcrypto,
  );
  const pem = `${own.toString('pem')}\n`;
  return {
    pem,
    async issue(order) {
      const { publicKey, privateKey } = await newKeys();
      const names = order.names.map((value) => ({ type: isIP(value) ? 'ip' : 'dns', value }) as const);
      const issued = await X509CertificateGenerator.create(
        {
          serialNumber: serial(),
          issuer: name,
          subject: `CN=${order.names[0]}`,
          publicKey,
          signingKey: keys.privateKey,
          signingAlgorithm: KEY,
          ...validity(order),
          extensions: [
            new BasicConstraintsExtension(false, undefined, true),
            new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
            new ExtendedKeyUsageExtension(
              (order.purposes ?? ['server', 'client']).map((purpose) => PURPOSES[purpose]),
            ),
            new SubjectAlternativeNameExtension(names),
            await SubjectKeyIdentifierExtension.create(publicKey, false, webcrypto),
            await AuthorityKeyIdentifierExtension.create(keys.publicKey, false, webcrypto),
          ],
        },
        webcrypto,
      );
      const certificate = `${issued.toString('pem')}\n`;
      return { certificate, key: await privatePem(privateKey), authority: pem };
    },
  };
}

function validity({ notBefore, notAfter }: Pick<CertificateOrder, 'notBefore' | 'notAfter'>) {
  return {
    notBefore: notBefore ?? new Date(Date.now() - 3_600_000),
    notAfter: notAfter ?? new Date(Date.now() + 3_650 * DAY_MS),
  };
}
