// @peculiar/x509 needs it for its classes.
import 'reflect-metadata';
import { webcrypto } from 'node:crypto';
import { mkdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsageExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  PemConverter,
  SubjectKeyIdentifierExtension,
  X509Certificate,
  X509CertificateGenerator,
} from '@peculiar/x509';
import { KEY, newKeys, privatePem, serial } from '@semblance/common/grpc/tls/keys';
import { writeAtomically } from '../process/write-atomically.ts';

const DAY_MS = 86_400_000;
const AUTHORITY_DAYS = 3_650;
const SIGNER_DAYS = 365;
/** Least remaining validity, in days; a certificate with less is replaced. */
const LEAST_DAYS = 30;
/** OID of e-mail protection, the extended key usage that readers of C2PA manifests accept by default. */
const PURPOSE = '1.3.6.1.5.5.7.3.4';

export interface SigningCertificate {
  /** PEM files of the signing certificate and of its private key. */
  readonly certificateFile: string;
  readonly keyFile: string;
  /** PEM file of the authority, for readers that should trust the stack. */
  readonly authorityFile: string;
}

/**
 * Returns the certificate with which a stack on one machine signs C2PA manifests, issued by its own authority. Both
 * are made at the first start and stored in `dir`. Nobody else trusts them.
 */
export async function signingCertificate(dir: string): Promise<SigningCertificate> {
  const file = (name: string) => join(dir, name);
  const files = {
    certificateFile: file('signer.pem'),
    keyFile: file('signer-key.pem'),
    authorityFile: file('authority.pem'),
  };
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const authority = await authorityOf(files.authorityFile, file('authority-key.pem'));
  const held = await certificateIn(files.certificateFile);
  const issuedByIt =
    held && (await held.verify({ publicKey: authority.certificate.publicKey, signatureOnly: true }));
  if (issuedByIt && (await pemOf(files.keyFile))) return files;

  const keys = await newKeys();
  const certificate = await X509CertificateGenerator.create(
    {
      serialNumber: serial(),
      subject: 'CN=Semblance on this machine, O=Semblance local stack',
      issuer: authority.certificate.subject,
      ...validity(SIGNER_DAYS),
      signingAlgorithm: KEY,
      publicKey: keys.publicKey,
      signingKey: authority.key,
      extensions: [
        new BasicConstraintsExtension(false, undefined, true),
        new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
        new ExtendedKeyUsageExtension([PURPOSE], true),
        await SubjectKeyIdentifierExtension.create(keys.publicKey, false, webcrypto),
        await AuthorityKeyIdentifierExtension.create(authority.certificate.publicKey, false, webcrypto),
      ],
    },
    webcrypto,
  );
  // The certificate is written last, because without it everything else is made again.
  await writeAtomically(files.keyFile, await privatePem(keys.privateKey));
  await writeAtomically(files.certificateFile, `${certificate.toString('pem')}\n`);
  return files;
}

interface Authority {
  readonly certificate: X509Certificate;
  readonly key: webcrypto.CryptoKey;
}

async function authorityOf(certificateFile: string, keyFile: string): Promise<Authority> {
  const held = await certificateIn(certificateFile);
  const pem = await pemOf(keyFile);
  if (held && pem) {
    const der = PemConverter.decodeFirst(pem);
    return { certificate: held, key: await webcrypto.subtle.importKey('pkcs8', der, KEY, false, ['sign']) };
  }
  const keys = await newKeys();
  const certificate = await X509CertificateGenerator.createSelfSigned(
    {
      serialNumber: serial(),
      name: 'CN=Semblance authority of this machine, O=Semblance local stack',
      ...validity(AUTHORITY_DAYS),
      signingAlgorithm: KEY,
      keys,
      extensions: [
        new BasicConstraintsExtension(true, 0, true),
        new KeyUsagesExtension(KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign, true),
        await SubjectKeyIdentifierExtension.create(keys.publicKey, false, webcrypto),
      ],
    },
    webcrypto,
  );
  await writeAtomically(keyFile, await privatePem(keys.privateKey));
  await writeAtomically(certificateFile, `${certificate.toString('pem')}\n`);
  return { certificate, key: keys.privateKey };
}

/** Reads a certificate; undefined when the file is absent or the certificate expires soon. */
async function certificateIn(file: string): Promise<X509Certificate | undefined> {
  const pem = await pemOf(file);
  if (!pem) return undefined;
  const certificate = new X509Certificate(pem);
  return certificate.notAfter.getTime() - Date.now() > LEAST_DAYS * DAY_MS ? certificate : undefined;
}

async function pemOf(file: string): Promise<string | undefined> {
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** Returns the validity period. It begins an hour ago, because a reader's clock may be slow. */
function validity(days: number): { notBefore: Date; notAfter: Date } {
  return { notBefore: new Date(Date.now() - 3_600_000), notAfter: new Date(Date.now() + days * DAY_MS) };
}
