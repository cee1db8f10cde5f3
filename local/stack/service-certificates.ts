// @peculiar/x509 needs it for its classes.
import 'reflect-metadata';
import { webcrypto } from 'node:crypto';
import { mkdir } from 'node:fs/promises';
import { isIP } from 'node:net';
import { join } from 'node:path';
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
import { COMPONENTS, type Component, nameOf } from '@semblance/common/grpc/tls/components';
import { writeAtomically } from '../process/write-atomically.ts';
import { KEY, newKeys, privatePem, serial } from './signing-certificate.ts';

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

/** Creates an authority whose key exists only in memory. */
export async function createAuthority(
  order: Pick<CertificateOrder, 'notBefore' | 'notAfter'> = {},
): Promise<Authority> {
  const keys = await newKeys();
  const name = 'CN=Semblance services of this machine, O=Semblance local stack';
  const own = await X509CertificateGenerator.createSelfSigned(
    {
      serialNumber: serial(),
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

/** Writes the files into a folder, each atomically. */
export async function writeTlsFiles(dir: string, { certificate, key, authority }: TlsFiles): Promise<void> {
  await mkdir(dir, { recursive: true, mode: 0o700 });
  await writeAtomically(join(dir, 'tls.key'), key);
  await writeAtomically(join(dir, 'ca.crt'), authority);
  await writeAtomically(join(dir, 'tls.crt'), certificate);
}

/**
 * Creates a folder in `dir` with a certificate for each service, all from one authority made for this start.
 * @returns the folder of each service
 */
export async function serviceCertificates(dir: string): Promise<Record<Component, string>> {
  const authority = await createAuthority();
  const folders = {} as Record<Component, string>;
  for (const component of COMPONENTS) {
    folders[component] = join(dir, component);
    await writeTlsFiles(folders[component], await authority.issue({ names: [nameOf(component)] }));
  }
  return folders;
}

function validity({ notBefore, notAfter }: Pick<CertificateOrder, 'notBefore' | 'notAfter'>) {
  return {
    notBefore: notBefore ?? new Date(Date.now() - 3_600_000),
    notAfter: notAfter ?? new Date(Date.now() + 3_650 * DAY_MS),
  };
}
