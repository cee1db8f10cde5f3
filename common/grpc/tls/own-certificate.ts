// @peculiar/x509 needs it for its classes.
import 'reflect-metadata';
import { webcrypto } from 'node:crypto';
import {
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  SubjectAlternativeNameExtension,
  X509CertificateGenerator,
} from '@peculiar/x509';
import { type Component, nameOf } from './components.ts';
import { KEY, newKeys, privatePem } from './keys.ts';
import type { MaterialFiles } from './material.ts';

const DAY_MS = 86_400_000;
/** Validity, in days. It ends long after the process that holds the key. */
const DAYS = 3_650;

/** A certificate that a process made for itself, in PEM. */
export type OwnCertificate = Pick<MaterialFiles, 'certificate' | 'key'>;

/**
 * Makes a key, which never leaves this process, and a certificate signed with it. It begins an hour ago, because
 * clocks differ.
 */
export async function createOwnCertificate(component: Component): Promise<OwnCertificate> {
  const keys = await newKeys();
  const name = nameOf(component);
  const certificate = await X509CertificateGenerator.createSelfSigned(
    {
      name: `CN=${name}`,
      keys,
      signingAlgorithm: KEY,
      notBefore: new Date(Date.now() - 3_600_000),
      notAfter: new Date(Date.now() + DAYS * DAY_MS),
      extensions: [
        new BasicConstraintsExtension(false, undefined, true),
        new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
        new ExtendedKeyUsageExtension([ExtendedKeyUsage.serverAuth]),
        new SubjectAlternativeNameExtension([{ type: 'dns', value: name }]),
      ],
    },
    webcrypto,
  );
  return {
    certificate: Buffer.from(`${certificate.toString('pem')}\n`),
    key: Buffer.from(await privatePem(keys.privateKey)),
  };
}
